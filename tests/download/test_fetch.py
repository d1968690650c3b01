"""Downloads from servers that misbehave, from local copies, after kills and onto full disks."""

import errno
import hashlib
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mlml.download import fetch as module
from mlml.download.archives import Archive
from mlml.download.fetch import DownloadError, fetch
from tests.test_architecture import ROOT

DATA = random.Random(0).randbytes(300_000)
SHA256 = hashlib.sha256(DATA).hexdigest()
OTHER = random.Random(1).randbytes(len(DATA))
WRONG_SHA256 = f"its file has sha256 {hashlib.sha256(OTHER).hexdigest()}, not {SHA256}"


class Handler(BaseHTTPRequestHandler):
    """Logs each request's path and first byte; the function that the server has for the path answers."""

    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_GET(self) -> None:
        self.ranged = self.headers["Range"] is not None
        self.start = int(self.headers["Range"].removeprefix("bytes=").rstrip("-")) if self.ranged else 0
        self.server.log.append((self.path, self.start))
        self.close_connection = True
        self.server.routes[self.path](self)

    def answer(self, code: int, body: bytes = b"", **fields: object) -> None:
        """Send `body`; `fields` replace the headers it would have, and None leaves one out."""
        self.send_response(code)
        for name, value in {"Content_Length": len(body), "Connection": "close", **fields}.items():
            if value is not None:
                self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def serve(self, data: bytes = DATA, upto: int | None = None) -> None:
        """The right answer, cut off after byte `upto` of the file."""
        length = {"Content_Length": len(data) - self.start}
        span = {"Content_Range": f"bytes {self.start}-{len(data) - 1}/{len(data)}"} if self.ranged else {}
        self.answer(206 if self.ranged else 200, data[self.start : upto], **length, **span)

    def log_message(self, format: str, *args: object) -> None:
        pass


Answer = Callable[[Handler], object]


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.over = threading.Event()  # a test's end, for answers that wait
        self.routes: dict[str, Answer] = {}
        self.log: list[tuple[str, int]] = []
        self.good = self.add("/good", Handler.serve)

    def add(self, path: str, *answers: Answer) -> str:
        """Give each of `answers` once, and the last one from then on; returns the URL."""
        left = list(answers)
        self.routes[path] = lambda handler: (left.pop(0) if len(left) > 1 else left[0])(handler)
        return f"http://127.0.0.1:{self.server_port}{path}"

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that hangs up is what some of these tests are about

    @property
    def starts(self) -> list[int]:
        return [start for _, start in self.log]


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.over.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF", 0.0)
    monkeypatch.setattr(module, "CHUNK", 10_000)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


class Case:
    """The folder of one download, and the partial file there."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "out"
        self.target, self.part = self.folder / "x.tar", self.folder / "x.tar.part"

    def archive(self, *urls: str) -> Archive:
        return Archive(file="x.tar", urls=list(urls), bytes=len(DATA), sha256=SHA256)

    def succeeds(self, *urls: str) -> None:
        assert fetch(self.archive(*urls), self.folder) == self.target
        assert list(self.folder.iterdir()) == [self.target]
        assert self.target.read_bytes() == DATA

    def fails(self, *urls: str, kept: int = 0) -> str:
        with pytest.raises(DownloadError) as error:
            fetch(self.archive(*urls), self.folder)
        assert not self.target.exists()
        assert (self.part.read_bytes() if self.part.exists() else b"") == DATA[:kept]
        return str(error.value)

    def has(self, data: bytes) -> None:
        """Leave `data` as an earlier run's partial file."""
        self.folder.mkdir(exist_ok=True)
        self.part.write_bytes(data)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


# Transfers, whole and broken


def _until(byte: int, data: bytes = DATA) -> Answer:
    """The right answer, cut off."""
    return lambda h: h.serve(data, byte)


def _answer(code: int, body: bytes = b"", **fields: object) -> Answer:
    """The same answer to each request."""
    return lambda h: h.answer(code, body, **fields)


def _silent(h: Handler) -> None:
    h.serve(upto=500)  # less than a file's buffer
    h.server.over.wait(60)


def _piece(h: Handler) -> None:
    end = min(h.start + 60_000, len(DATA))
    h.answer(206, DATA[h.start : end], Content_Range=f"bytes {h.start}-{end - 1}/*")


def _encoded(h: Handler) -> None:
    h.answer(200 if h.headers["Accept-Encoding"] == "identity" else 406, DATA, Content_Encoding="x-gzip")


CHUNKED = _answer(200, b"1388\r\n" + DATA[:5000] + b"\r\n", Content_Length=None, Transfer_Encoding="chunked")
FROM_0 = _answer(206, DATA, Content_Range=f"bytes 0-{len(DATA) - 1}/{len(DATA)}")
BUSY = (429, 500, 502, 503, 504)
CUTS = [50_000 * n for n in range(1, module.RETRIES + 3)]  # more often than a transfer may break at one place


@pytest.mark.parametrize(
    ("kept", "answers", "starts"),
    [
        pytest.param(b"", [], [0], id="new"),
        pytest.param(DATA[:1], [], [1], id="resumed"),
        pytest.param(DATA[:-1], [], [len(DATA) - 1], id="last-byte"),
        pytest.param(DATA, [], [], id="complete"),
        pytest.param(OTHER, [], [0], id="complete-and-wrong"),
        pytest.param(DATA + b"x", [], [0], id="too-long"),
        pytest.param(b"", [_until(5000)], [0, 5000], id="cut"),
        pytest.param(b"", [_silent], [0, 500], id="silent"),
        pytest.param(b"", [_answer(200, DATA[:5000], Content_Length=None)], [0, 5000], id="cut-without-length"),
        pytest.param(b"", [CHUNKED], [0, 5000], id="cut-chunked"),
        pytest.param(b"", [*map(_until, CUTS)], [0, *CUTS], id="cut-often"),
        pytest.param(DATA[:9], [_piece] * 5, [9, 60_009, 120_009, 180_009, 240_009], id="pieces"),
        *(pytest.param(b"", [_answer(n)] * module.RETRIES, [0] * (module.RETRIES + 1), id=f"{n}") for n in BUSY),
        pytest.param(b"", [_encoded], [0], id="encoded"),
        pytest.param(DATA[:9], [_answer(302, Location="/x")], [9, 9], id="redirect"),
        pytest.param(OTHER[:9], [_answer(200, DATA)], [9], id="range-ignored"),
        pytest.param(DATA[:9], [FROM_0], [9, 0], id="other-range"),
        pytest.param(OTHER[:9], [], [9, 0], id="wrong-beginning"),
        pytest.param(OTHER[:-9], [Handler.serve, *map(_until, CUTS)], [len(DATA) - 9, 0, *CUTS], id="wrong-and-cut"),
        pytest.param(b"", [_until(9, OTHER)], [0, 9, 0], id="changed"),
    ],
)
def test_transfers(
    case: Case, server: Server, monkeypatch: pytest.MonkeyPatch, kept: bytes, answers: list[Answer], starts: list[int]
) -> None:
    if _silent in answers:
        monkeypatch.setattr(module, "TIMEOUT", (15, 1.0))  # of silence: a slow machine is no failure
    case.has(kept)
    case.succeeds(server.add("/x", *answers, Handler.serve))
    assert server.starts == starts


@pytest.mark.parametrize(
    ("content", "starts"), [(DATA, []), (OTHER, [0]), (DATA[:-1], [0])], ids=["ok", "other", "cut"]
)
def test_target_counts_only_if_it_is_right(case: Case, server: Server, content: bytes, starts: list[int]) -> None:
    case.has(b"")
    case.target.write_bytes(content)
    case.succeeds(server.good)
    assert server.starts == starts


def test_server_that_always_starts_over_and_breaks_is_given_up(case: Case, server: Server) -> None:
    answers = [_answer(200, DATA[:n], Content_Length=len(DATA)) for n in (5000, 4000)]  # each second one gets further
    message = case.fails(server.add("/x", *answers * 5), kept=4000)
    assert f"at byte 4,000 of 300,000, and {module.RETRIES} retries got no further" in message
    assert len(server.log) == module.RETRIES + 1


def test_kill_and_resume_in_another_process(case: Case, server: Server) -> None:
    url = server.add("/x", _silent, Handler.serve)
    code = (
        "import sys; from pathlib import Path; from mlml.download import archives, fetch\n"
        "fetch.fetch(archives.Archive.model_validate_json(sys.argv[1]), Path(sys.argv[2]))"
    )
    command = [sys.executable, "-c", code, case.archive(url).model_dump_json(), str(case.folder)]
    child = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)
    while not case.part.exists() or case.part.stat().st_size < 500:  # what arrived is on the disk at once
        assert child.poll() is None, child.communicate()[1]
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert child.returncode == -signal.SIGKILL
    assert list(case.folder.iterdir()) == [case.part]
    assert subprocess.run(command, cwd=ROOT, capture_output=True).returncode == 0
    assert case.target.read_bytes() == DATA
    assert server.starts == [0, 500]


def test_endless_body_is_stopped_at_the_size(case: Case, server: Server) -> None:
    hung_up = threading.Event()

    def endless(h: Handler) -> None:
        h.answer(200, DATA, Content_Length=None)
        try:
            while True:
                h.wfile.write(bytes(100_000))
        except OSError:
            hung_up.set()

    case.succeeds(server.add("/x", endless))
    assert hung_up.wait(60)


# Servers that do not give the file


def test_waits_double_and_retry_after_is_obeyed_up_to_a_bound(
    case: Case, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    monkeypatch.setattr(module, "BACKOFF", 1.0)
    broken = server.add("/broken", _answer(200, Content_Length=None))
    times = (7, 3600, formatdate(time.time() + 3600, usegmt=True))
    busy = server.add("/busy", *[_answer(429, Retry_After=t) for t in times], Handler.serve)
    case.succeeds(broken, busy)
    assert waits == [1, 2, 4, 7, module.MAX_RETRY_AFTER, module.MAX_RETRY_AFTER]


@pytest.mark.parametrize(
    ("answer", "reason", "requests"),
    [
        (_answer(503), "the server answers 503 Service Unavailable", module.RETRIES + 1),
        (_answer(404), "the server answers 404 Not Found", 1),
        (_answer(302, Location="/x"), "no answer: Exceeded 30 redirects.", 31),
        (_answer(503, Retry_After="soon"), "no answer: Invalid Retry-After header: soon", 1),
        (_answer(200, DATA + b"x"), "its file has 300,001 bytes, not 300,000", 1),
        (lambda h: h.serve(DATA[:2000]), "its file has 2,000 bytes, not 300,000", 1),
        (_answer(200, b"<html>Log in", Content_Type="text/HTML"), "it gives an HTML page (a moved file", 1),
    ],
    ids=["busy", "missing", "redirects", "retry-after", "longer", "size", "page"],
)
def test_kept_bytes_survive_a_refusal(case: Case, server: Server, answer: Answer, reason: str, requests: int) -> None:
    case.has(DATA[:1000])
    url = server.add("/x", answer)
    assert f"\n  {url}: {reason}" in case.fails(url, kept=1000)
    assert server.log == [("/x", 1000)] * requests
    case.succeeds(url, server.good)
    assert server.log[-1] == ("/good", 1000)


def test_message_has_a_line_for_each_url(case: Case, server: Server, tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(DATA[:-1])
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        urls = [f"http://127.0.0.1:{closed.getsockname()[1]}/x", server.add("/x", _answer(404)), "file:none"]
        urls += [f"file:{tmp_path}", f"file:{tmp_path}/short"]
        case.has(DATA[:1000])
        message = case.fails(*urls, kept=1000)
    assert message.split("\n") == [
        "x.tar: cannot be downloaded",
        f"  {urls[0]}: no answer: [Errno {errno.ECONNREFUSED}] Connection refused",
        f"  {urls[1]}: the server answers 404 Not Found",
        f"  {urls[2]}: {Path('none').absolute()} cannot be read: No such file or directory",
        f"  {urls[3]}: {tmp_path} cannot be read: Is a directory",
        f"  {urls[4]}: its file has 299,999 bytes, not 300,000",
        f"  1,000 of 300,000 bytes are kept in {case.part}; run the command again to resume, or add the file: URL of a "
        "copy you have to the data set's dataset.yaml",
    ]


def test_silence_instead_of_an_answer(case: Case, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    url = server.add("/x", lambda h: h.server.over.wait(60))
    monkeypatch.setattr(module, "TIMEOUT", (15, 0.05))
    assert f"{url}: no answer: timed out" in case.fails(url)
    assert len(server.log) == module.RETRIES + 1


def _status(words: str) -> Answer:
    return lambda h: (h.send_response(404, words), h.end_headers())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (_status("\x1b]0;title\x07"), "the server answers 404 \\x1b]0;title\\x07"),
        (_answer(301, Location="http://\xff\xff/"), "no answer: "),
        (_answer(301, Location=f"http://{'a' * 70}.org/"), "no answer: "),
        (_answer(301, Location="file:///etc/passwd"), "no answer: No connection adapters were found"),
        (_answer(200, DATA[:9], Content_Length="\xb2"), "the connection broke"),
        (_answer(200, DATA[:9], Content_Length="9" * 5000), "the connection broke"),
        (_answer(200, DATA[:9], Transfer_Encoding="chunked", Content_Length=None), "the connection broke"),
    ],
    ids=["control characters", "no text", "no name", "a file", "no number", "a long number", "no chunks"],
)
def test_a_hostile_server_does_not_keep_from_the_next(
    case: Case, server: Server, capsys: Any, answer: Answer, reason: str
) -> None:
    url = server.add("/x", answer)
    case.succeeds(url, server.good)
    said = capsys.readouterr().err
    assert reason in said
    assert set(said) <= {"\n", *map(chr, range(32, 127))}


# Wrong bytes


@pytest.mark.parametrize("local", [False, True], ids=["server", "copy"])
def test_wrong_file_is_removed_and_the_next_url_tried(
    case: Case, server: Server, tmp_path: Path, capsys: Any, local: bool
) -> None:
    (tmp_path / "copy").write_bytes(OTHER)
    wrong = f"file:{tmp_path}/copy" if local else server.add("/wrong", lambda h: h.serve(OTHER))
    message = case.fails(wrong)
    assert f"\n  {wrong}: {WRONG_SHA256}\n  nothing is kept; run the command again to retry" in message
    case.succeeds(wrong, server.good)
    assert server.starts == ([0] if local else [0, 0, 0])
    assert f"x.tar: {wrong}: {WRONG_SHA256}" in capsys.readouterr().err


def test_wrong_beginning_does_not_spoil_a_right_url(case: Case, server: Server, capsys: Any) -> None:
    wrong = server.add("/wrong", _until(1000, OTHER), _answer(404))
    case.succeeds(wrong, server.good)
    assert server.log[2:] == [("/good", 1000), ("/good", 0)]
    assert "do not fit together; starting over" in capsys.readouterr().err


def test_wrong_pieces_are_started_over_once(case: Case, server: Server) -> None:
    case.has(OTHER[:1000])
    wrong = server.add("/x", Handler.serve, _until(500, OTHER), lambda h: h.serve(OTHER))
    assert WRONG_SHA256 in case.fails(wrong)
    assert server.starts == [1000, 0, 500]


# Local copies


@pytest.mark.parametrize(
    "url", ["file:my copies/x%20.tar", "file:{}/my copies/x%20.tar", "file://{}/my copies/x%20.tar"]
)
def test_local_copy(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.chdir(tmp_path)
    copy = tmp_path / "my copies" / "x%20.tar"
    copy.parent.mkdir()
    copy.write_bytes(DATA)
    case.has(OTHER[:1000])
    case.succeeds(url.format(tmp_path))
    assert copy.read_bytes() == DATA


# The disk


def test_full_disk_keeps_what_arrived(case: Case, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def advance(count: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module, "progress", lambda *args: nullcontext(advance))
        patch.setattr(module, "CHUNK", 500)
        case.has(DATA[:1000])
        message = case.fails(server.good, server.good, kept=1500)
    assert f"\n  No space left on device; make room: {case.folder} needs 298,500 more bytes\n" in message
    assert f"\n  1,500 of 300,000 bytes are kept in {case.part}; run the command again to resume" in message
    case.succeeds(server.good)
    assert server.starts == [1000, 1500]


def test_other_errors_of_the_disk_come_through(case: Case, server: Server) -> None:
    case.part.mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        fetch(case.archive(server.good), case.folder)


def test_progress_starts_where_the_transfer_does(case: Case, server: Server, capsys: Any) -> None:
    case.has(DATA[:200_000])
    case.succeeds(server.good)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"x.tar: from {server.good}, resuming at byte 200,000"
    assert re.fullmatch("x.tar: 7.% of 300,000 bytes", lines[1])
    assert lines[4:15:10] == ["x.tar: 100% of 300,000 bytes", "checking x.tar: 100% of 300,000 bytes"]
