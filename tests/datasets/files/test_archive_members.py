"""Members of tar and zip archives are read unchanged, by many threads, or refused in one line."""

import io
import os
import random
import re
import struct
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlml.datasets.files import regular_files
from mlml.datasets.files.archive_members import TarMembers, ZipMembers
from tests.shared import traced

GIB = 1 << 30
IO = Path("/proc/self/io")
Files = dict[str, bytes]
Write = Callable[[Path, Files], Path]
Opener = type[TarMembers] | type[ZipMembers]


def write_tar(path: Path, files: Files) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return path


def write_zip(path: Path, files: Files, method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content, method)
    return path


def write_stored(path: Path, files: Files) -> Path:
    return write_zip(path, files, zipfile.ZIP_STORED)


KINDS = [
    pytest.param(TarMembers, write_tar, id="tar"),
    pytest.param(ZipMembers, write_zip, id="deflated"),
    pytest.param(ZipMembers, write_stored, id="stored"),
]
each_kind = pytest.mark.parametrize(("opener", "write"), KINDS)


def message(read: Callable[[], object], path: Path) -> str:
    with pytest.raises(ValueError) as error:
        read()
    assert "\n" not in str(error.value)
    return str(error.value).replace(str(path), "ARCHIVE")


def refusal(path: Path, opener: Opener, files: Files) -> str:
    """The message of the ValueError, or "": then the members, or those that are left, are whole."""
    try:
        members = opener(path)
        assert all(members.read(name) == files[name] for name in files if name in members)
    except ValueError as error:
        return str(error)
    return ""


def some_files(count: int) -> Files:
    source = random.Random(0)
    return {f"a/{i}.bin": source.randbytes(source.randrange(3000)) + bytes(i * 10) for i in range(count)}


@each_kind
def test_many_threads_at_once(tmp_path: Path, opener: Opener, write: Write) -> None:
    files = some_files(200)
    members = opener(write(tmp_path / "archive", files))
    names = [*files] * 10
    random.Random(1).shuffle(names)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(members.read, names)) == [files[name] for name in names]


class Pipe(io.BytesIO):
    """Not seekable, so that a zip written to it stores the sizes of members behind them."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise OSError


texts = st.text("abü/ .", min_size=1, max_size=9).filter(lambda text: text[-1] != "/")


@given(
    st.dictionaries(texts, st.binary()),
    st.sampled_from([0, zipfile.ZIP_DEFLATED]),
    st.booleans(),
    st.booleans(),
    st.binary(),
)
@settings(max_examples=100)
def test_any_zip(files: Files, method: int, zip64: bool, streamed: bool, before: bytes) -> None:
    """Including one written to a pipe, one with a longer header (zip64), and one with a prefix."""
    file = Pipe() if streamed else io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in files.items():
            with archive.open(name, "w", force_zip64=zip64) as member:
                member.write(content)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "any.zip"
        path.write_bytes(before + file.getvalue())
        members = ZipMembers(path)
        assert {name: members.read(name) for name in files} == files


@each_kind
def test_texts_and_names(tmp_path: Path, opener: Opener, write: Write) -> None:
    path = write(tmp_path / "archive", {"a/ü.txt": "ä\n".encode(), "latin": b"\xe4", "folder/": b""})
    members = opener(path)
    assert members.text("a/ü.txt") == "ä\n"
    assert [name in members for name in ("a/ü.txt", "a", "a/u.txt", "./a/ü.txt", "")] == [True] + [False] * 4
    assert message(lambda: members.read("a"), path) == "ARCHIVE: a is missing"
    assert message(lambda: members.text("latin"), path).startswith("ARCHIVE: latin is no text in UTF-8: ")


def test_only_files_are_members(tmp_path: Path) -> None:
    """A link holds only the other file's name, a sparse file only the parts that are not zero."""
    path = tmp_path / "archive.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind in (("folder", tarfile.DIRTYPE), ("soft", tarfile.SYMTYPE), ("hard", tarfile.LNKTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/hostname"
            tar.addfile(member)
        member = tarfile.TarInfo("sparse")
        member.size, member.pax_headers = 3, {"GNU.sparse.map": "0,3", "GNU.sparse.size": "9"}
        tar.addfile(member, io.BytesIO(b"abc"))
    assert not [name for name in ("folder", "soft", "hard", "sparse") if name in TarMembers(path)]
    assert "folder/" not in ZipMembers(write_zip(tmp_path / "archive.zip", {"folder/": b""}))


@each_kind
def test_names_that_lead_elsewhere_are_only_names(tmp_path: Path, opener: Opener, write: Write) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_bytes(b"of the user")
    (tmp_path / "data").mkdir()
    wild = {"../outside.txt": b"1", str(outside): b"2", "x/../../outside.txt": b"3"}
    members = opener(write(tmp_path / "data/archive", {**wild, "good.txt": b"0"}))
    assert members.read("good.txt") == b"0"
    assert {name: members.read(name) for name in wild if name in members} == wild
    assert sorted(tmp_path.rglob("*")) == [tmp_path / name for name in ("data", "data/archive", "outside.txt")]
    assert outside.read_bytes() == b"of the user"


@pytest.mark.skipif(not IO.exists(), reason="the system does not count what a process reads")
@pytest.mark.parametrize("opener", [TarMembers, ZipMembers])
def test_gigabytes_are_not_read_at_opening(tmp_path: Path, opener: Opener) -> None:
    """A sparse file of 5 GiB; in the zip the last member lies beyond 32 bits (zip64)."""
    path = tmp_path / "large"
    with path.open("wb") as file:
        if opener is TarMembers:
            large = tarfile.TarInfo("large")
            large.size = 5 * GIB
            file.write(large.tobuf(tarfile.GNU_FORMAT))
        file.truncate(file.tell() + 5 * GIB)
    if opener is TarMembers:
        with path.open("ab") as file:
            file.write((write_tar(tmp_path / "end", {"last": b"abc"})).read_bytes())
    else:
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr("last", b"abc")
    before = was_read()
    assert opener(path).read("last") == b"abc"
    assert was_read() - before < 1_000_000


def test_a_large_member_is_in_memory_once(tmp_path: Path) -> None:
    members = ZipMembers(write_zip(tmp_path / "archive", {"a": bytes(20_000_000)}))
    content, peak = traced(lambda: members.read("a"))
    assert content == bytes(20_000_000)
    assert peak < 22_000_000


def test_sizes_about_those_of_the_pieces(tmp_path: Path) -> None:
    """What compresses well fills a piece in the middle of a repetition."""
    files = {f"{size}": (b"abc" * size)[:size] for size in (*range(261_800, 262_500, 9), 0, 1, 2)}
    members = ZipMembers(write_zip(tmp_path / "archive", files))
    assert all(members.read(name) == content for name, content in files.items())


def was_read() -> int:
    """The bytes that this process has read so far."""
    return int(IO.read_text().split("rchar: ")[1].split()[0])


@each_kind
def test_an_archive_stays_open_and_is_closed(tmp_path: Path, opener: Opener, write: Write) -> None:
    path = write(tmp_path / "archive", {"a": b"abc"})
    members = opener(path)
    path.rename(tmp_path / "moved")
    assert members.read("a") == b"abc"
    descriptor = members._file
    del members
    with pytest.raises(OSError):
        os.fstat(descriptor)


# What can be wrong


@pytest.mark.parametrize(("opener", "kind"), [(TarMembers, "tar"), (ZipMembers, "zip")])
def test_no_archive(tmp_path: Path, opener: Opener, kind: str) -> None:
    path = tmp_path / "archive"
    assert message(lambda: opener(path), path) == "ARCHIVE is missing; `dvc repro download` fetches it"
    for content in (b"", b"<html>", b"<html>" * 1000, b"PK\3\4" + bytes(1000)):
        path.write_bytes(content)
        assert message(lambda: opener(path), path).startswith(f"ARCHIVE is no {kind} archive, or is cut short: ")
    path.unlink()
    for make, what in ((os.mkdir, "a folder"), (os.mkfifo, "a named pipe")):
        make(path)
        assert message(lambda: opener(path), path) == f"ARCHIVE is no {kind} archive: it is {what}"
        path.rmdir() if path.is_dir() else path.unlink()


@each_kind
def test_cut_short_anywhere(tmp_path: Path, opener: Opener, write: Write) -> None:
    """It is refused, except a tar cut between two members, whose remaining members are whole."""
    files = some_files(4)
    path = write(tmp_path / "archive", files)
    content, refused = path.read_bytes(), 0
    for size in (*range(0, len(content), 97), len(content) - 1):
        path.write_bytes(content[:size])
        reason = refusal(path, opener, files)
        assert " archive, or is cut short: " in reason if reason else opener is TarMembers
        refused += bool(reason)
    assert refused > len(content) / 97 / 3


@each_kind
def test_shrinking_while_it_is_read(tmp_path: Path, opener: Opener, write: Write) -> None:
    path = write(tmp_path / "archive", {"a": random.Random(0).randbytes(2000)})
    members = opener(path)
    os.truncate(path, 520)
    assert re.match(r"ARCHIVE: a is cut short \(\d+ of \d+ bytes\)$", message(lambda: members.read("a"), path))
    os.truncate(path, 0)
    assert re.match(r"ARCHIVE: a is cut short \(0 of \d+ bytes\)$", message(lambda: members.read("a"), path))


@pytest.mark.parametrize("write", [write_zip, write_stored])
def test_a_changed_byte(tmp_path: Path, write: Write) -> None:
    """Every member is unchanged or refused."""
    files = {"a": b"abc" * 20, "b": bytes(range(40))}
    path = write(tmp_path / "archive", files)
    content, reasons = path.read_bytes(), []
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0xFF]) + content[place + 1 :])
        reasons.append(refusal(path, ZipMembers, files))
    assert sum(map(bool, reasons)) > len(content) / 2
    assert all(line.startswith(str(path)) and "\n" not in line for line in reasons if line)


def patch(content: bytes, signature: bytes, offset: int, form: str, value: int) -> bytes:
    """Change a field of the first record with this signature."""
    changed = bytearray(content)
    struct.pack_into(form, changed, content.index(signature) + offset, value)
    return bytes(changed)


@pytest.mark.parametrize(
    ("offset", "form", "value", "reason"),
    [
        (8, "<H", 1, "a is encrypted; bring an archive that needs no password"),
        (10, "<H", 12, "a is compressed by method 12, not stored or deflated"),
        (16, "<I", 7, "a is damaged (its checksum differs); bring the archive again"),
        (20, "<I", 0xFFFFFF00, "a is cut short (.* of 4294967040 bytes)"),
        (24, "<I", 0xFFFFFF00, "a has 4,294,967,040 bytes; at most 1,073,741,824 are read"),
        (24, "<I", 0x3FFFFFFF, "a is damaged (its checksum differs); bring the archive again"),
        (24, "<I", 7, "a is damaged (its checksum differs); bring the archive again"),
        (42, "<I", 3, "a is not where the archive says; bring the archive again"),
    ],
)
def test_fields_that_are_wrong(tmp_path: Path, offset: int, form: str, value: int, reason: str) -> None:
    """Fields in the list of members; a declared size of a GB does not take that much memory."""
    path = write_zip(tmp_path / "archive", {"a": b"abc" * 30})
    path.write_bytes(patch(path.read_bytes(), b"PK\1\2", offset, form, value))
    members = ZipMembers(path)
    pattern = re.escape(f"ARCHIVE: {reason}").replace(r"\.\*", ".*")
    reported, peak = traced(lambda: message(lambda: members.read("a"), path))
    assert re.fullmatch(pattern, str(reported))
    assert peak < 1_000_000


def test_data_that_cannot_be_unpacked(tmp_path: Path) -> None:
    path = write_zip(tmp_path / "archive", {"a": b"abc" * 30})
    content = path.read_bytes()
    path.write_bytes(content[:31] + b"\xff" * 5 + content[36:])
    reason = message(lambda: ZipMembers(path).read("a"), path)
    assert re.fullmatch(r"ARCHIVE: a is damaged \(Error -3 .*\); bring the archive again", reason)


def test_a_member_that_is_larger_than_the_archive_says(tmp_path: Path) -> None:
    """A bomb of 20 MB, declared as 90 bytes, is not unpacked."""
    path = write_zip(tmp_path / "archive", {"a": bytes(20_000_000)})
    path.write_bytes(patch(path.read_bytes(), b"PK\1\2", 24, "<I", 90))
    members = ZipMembers(path)
    reported, peak = traced(lambda: message(lambda: members.read("a"), path))
    assert reported == "ARCHIVE: a is damaged (its checksum differs); bring the archive again"
    assert peak < 1_000_000


@each_kind
def test_a_member_that_would_fill_the_memory(
    tmp_path: Path, opener: Opener, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = opener(write(tmp_path / "archive", {"a": bytes(1000), "b": bytes(1001)}))
    monkeypatch.setattr(regular_files.check_size, "__defaults__", (1000,))
    assert members.read("a") == bytes(1000)
    assert message(lambda: members.read("b"), members.path) == "ARCHIVE: b has 1,001 bytes; at most 1,000 are read"
