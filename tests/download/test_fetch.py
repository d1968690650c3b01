"""Fetching from servers that misbehave, from copies at hand, after kills and onto full disks."""

import errno
import hashlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from mlml.core.params import parse
from mlml.download import archive, transfer
from mlml.download import fetch as module
from mlml.download.fetch import Archive, DownloadError, fetch

DATA = random.Random(0).randbytes(300_000)
SHA256 = hashlib.sha256(DATA).hexdigest()
OTHER = random.Random(1).randbytes(len(DATA))
HTML = b"<!DOCTYPE html><html><body>Please log in</body></html>"


class Handler(BaseHTTPRequestHandler):
    """Logs each request and leaves the answer to the function that the server has for the path."""

    protocol_version = "HTTP/1.1"
    server: "Server"

    def do_GET(self) -> None:
        self.asked = self.headers.get("Range")
        self.start = int(self.asked.removeprefix("bytes=").rstrip("-")) if self.asked else 0
        self.server.log.append((self.path, self.asked, self.headers.get("If-Range")))
        self.close_connection = True
        self.server.routes[self.path](self)

    def answer(self, code: int, body: bytes = b"", **fields: object) -> None:
        """Send `body`; `fields` replace the headers it would have, and None leaves one out."""
        headers = {"Content_Length": len(body), "Connection": "close", **fields}
        self.send_response(code)
        for name, value in headers.items():
            if value is not None:
                self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def ranged(self, data: bytes = DATA, upto: int | None = None, **fields: object) -> None:
        """The right answer, cut off after byte `upto` of the file."""
        rest, span = data[self.start :], f"bytes {self.start}-{len(data) - 1}/{len(data)}"
        span_field = {"Content_Range": span} if self.asked else {}
        self.answer(
            206 if self.asked else 200, data[self.start : upto], **{"Content_Length": len(rest), **span_field, **fields}
        )

    def log_message(self, format: str, *args: object) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.routes: dict[str, Callable[[Handler], object]] = {"/good": Handler.ranged}
        self.log: list[tuple[str, str | None, str | None]] = []

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"

    def add(self, path: str, answer: Callable[[Handler], object]) -> str:
        self.routes[path] = answer
        return self.url(path)

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # a client that hangs up is what some of these tests are about

    @property
    def ranges(self) -> list[str | None]:
        return [asked for _, asked, _ in self.log]


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF", 0.0)
    monkeypatch.setattr(transfer, "CHUNK", 10_000)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


class Case:
    """The folders of one download, and the partial file there."""

    def __init__(self, root: Path) -> None:
        self.folder, self.partial = root / "out", root / "partial"
        self.target = self.folder / "x.tar"
        self.part = self.partial / f"{SHA256}.part"

    def archive(self, *urls: str) -> Archive:
        return Archive(file="x.tar", urls=list(urls), bytes=len(DATA), sha256=SHA256)

    def fetch(self, *urls: str) -> bytes:
        path = fetch(self.archive(*urls), self.folder, self.partial)
        assert path == self.target
        assert list(self.partial.iterdir()) == []
        assert list(self.folder.iterdir()) == [path]
        return path.read_bytes()

    def fails(self, *urls: str) -> str:
        with pytest.raises(DownloadError) as caught:
            fetch(self.archive(*urls), self.folder, self.partial)
        assert not self.target.exists()
        return str(caught.value)

    def fails_anew(self, *urls: str) -> str:
        self.target.unlink()
        return self.fails(*urls)

    def has(self, data: bytes) -> None:
        """Leave `data` as an earlier run's partial."""
        self.partial.mkdir(exist_ok=True)
        self.part.write_bytes(data)


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def _flaky(*steps: Callable[[Handler], object]) -> Callable[[Handler], object]:
    """Answer with each step once, and well from then on."""
    left = list(steps)
    return lambda h: (left.pop(0) if left else Handler.ranged)(h)


# Archive


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"file": "a/b"}, "a: file: 'a/b' is not allowed; must be a file name without a folder"),
        ({"file": "a\\b"}, r"a: file: 'a\\b' is not allowed; must be a file name without a folder"),
        ({"file": "."}, "a: file: '.' is not allowed; must be a file name without a folder"),
        ({"file": ".."}, "a: file: '..' is not allowed; must be a file name without a folder"),
        ({"file": ""}, "a: file: '' is not allowed; must be a file name without a folder"),
        ({"urls": []}, "a: urls: [] is not allowed; "),
        ({"urls": ["http://h/x", "ftp://h/x"]}, "a: urls.1: 'ftp://h/x' is not allowed; must be http://..., "),
        ({"urls": ["http:///x"]}, "a: urls.0: 'http:///x' is not allowed; "),
        ({"urls": ["file://host/x"]}, "a: urls.0: 'file://host/x' is not allowed; "),
        ({"urls": ["file:"]}, "a: urls.0: 'file:' is not allowed; "),
        ({"urls": ["x.tar"]}, "a: urls.0: 'x.tar' is not allowed; "),
        ({"bytes": 0}, "a: bytes: 0 is not allowed; "),
        ({"bytes": "7"}, "a: bytes: '7' is not allowed; "),
        ({"sha256": "AB" * 32}, f"a: sha256: '{'AB' * 32}' is not allowed; must be 64 lowercase hex digits"),
        ({"sha256": "ab" * 31}, f"a: sha256: '{'ab' * 31}' is not allowed; must be 64 lowercase hex digits"),
        ({"md5": "0"}, "a: md5: unknown key; it takes bytes, file, sha256, urls"),
    ],
)
def test_wrong_archive_gives_one_line_naming_the_key(change: dict[str, Any], line: str) -> None:
    right = {"file": "x.tar", "urls": ["https://h/x"], "bytes": 7, "sha256": "ab" * 32}
    with pytest.raises(ValueError) as caught:
        parse(Archive, {**right, **change}, "a")
    message = str(caught.value)
    assert "\n" not in message
    assert message.replace("a.", "a: ", 1).startswith(line)


@pytest.mark.parametrize(
    "url", ["http://h/x", "https://h:1/x?y=z", "file:a/x", "file:/a/x", "file:///a/x", "file:../x"]
)
def test_addresses_that_are_allowed(url: str) -> None:
    values = {"file": "..x", "urls": [url], "bytes": 7, "sha256": "ab" * 32}
    assert parse(Archive, values, "a").urls == [url]


# The plain cases


def test_fetches(case: Case, server: Server) -> None:
    assert case.fetch(server.url("/good")) == DATA
    assert server.ranges == [None]


def test_complete_file_needs_no_request(case: Case, server: Server) -> None:
    case.folder.mkdir()
    case.target.write_bytes(DATA)
    case.has(DATA[:7])  # of no use any more
    assert case.fetch(server.url("/good")) == DATA
    assert server.log == []


@pytest.mark.parametrize("wrong", [DATA[:-1], OTHER])
def test_wrong_file_in_folder_does_not_count(case: Case, server: Server, wrong: bytes) -> None:
    case.folder.mkdir()
    case.target.write_bytes(wrong)
    assert case.fetch(server.url("/good")) == DATA


def test_redirect_keeps_the_range(case: Case, server: Server) -> None:
    url = server.add("/moved", lambda h: h.answer(302, Location="/good"))
    case.has(DATA[:100])
    assert case.fetch(url) == DATA
    assert server.log == [("/moved", "bytes=100-", None), ("/good", "bytes=100-", None)]


def test_redirect_loop_is_refused(case: Case, server: Server) -> None:
    loop = server.add("/loop", lambda h: h.answer(302, Location="/loop"))
    assert f"{loop}: no answer: Exceeded 30 redirects" in case.fails(loop)


@pytest.mark.parametrize("encoding", [None, "x-gzip"])
def test_body_is_taken_as_it_comes(case: Case, server: Server, encoding: str | None) -> None:
    url = server.add(
        "/encoded",
        lambda h: h.answer(200 if h.headers["Accept-Encoding"] == "identity" else 406, DATA, Content_Encoding=encoding),
    )
    assert case.fetch(url) == DATA


# Resuming


@pytest.mark.parametrize("kept", [0, 1, 4096, len(DATA) - 1])
def test_resumes_at_the_byte(case: Case, server: Server, kept: int) -> None:
    case.has(DATA[:kept])
    assert case.fetch(server.url("/good")) == DATA
    assert server.ranges == [f"bytes={kept}-" if kept else None]


def test_complete_partial_is_verified_without_a_request(case: Case, server: Server) -> None:
    case.has(DATA)
    assert case.fetch(server.url("/good")) == DATA
    assert server.log == []


@pytest.mark.parametrize("wrong", [OTHER, DATA + b"x"])
def test_complete_partial_that_is_wrong_is_started_over(case: Case, server: Server, wrong: bytes) -> None:
    case.has(wrong)
    assert case.fetch(server.url("/good")) == DATA
    assert server.ranges == [None]


@pytest.mark.parametrize("sent_first", [1, 2000])
def test_kill_and_resume_in_another_process(case: Case, server: Server, sent_first: int) -> None:
    sent, go_on = [], threading.Event()

    def slow(h: Handler) -> None:
        if h.asked:
            sent.append(len(DATA) - h.start)
            return h.ranged(ETag='"v1"')
        h.ranged(upto=sent_first, ETag='"v1"')
        if not go_on.wait(20):  # what came was not on the disk while the connection stood
            sent.append(-1)

    url = server.add("/slow", slow)
    code = (
        "import sys; from pathlib import Path; from mlml.download.fetch import Archive, fetch\n"
        "fetch(Archive.model_validate_json(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]))"
    )
    command = [sys.executable, "-c", code, case.archive(url).model_dump_json(), str(case.folder), str(case.partial)]
    environment = {**os.environ, "PYTHONPATH": str(Path(module.__file__).parents[2])}
    child = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    # Before the first 512 bytes nothing is written: they might be HTML.
    expected = sent_first if sent_first >= 512 else 0
    while not (server.log and (case.part.stat().st_size if case.part.exists() else 0) >= expected):
        assert child.poll() is None, child.communicate()[1]
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    go_on.set()
    assert child.returncode == -signal.SIGKILL
    if expected:
        assert case.part.read_bytes() == DATA[:expected]
        assert subprocess.run(command, env=environment, capture_output=True).returncode == 0
        assert server.log == [("/slow", None, None), ("/slow", f"bytes={expected}-", '"v1"')]
        assert sent == [len(DATA) - expected]
    else:
        assert case.fetch(server.url("/good")) == DATA
    assert case.target.read_bytes() == DATA


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"ETag": '"v1"', "Last_Modified": "then"}, '"v1"'),
        ({"ETag": 'W/"v1"', "Last_Modified": "then"}, "then"),
        ({"Last_Modified": "then"}, "then"),
        ({"ETag": 'W/"v1"'}, None),
    ],
)
def test_if_range(case: Case, server: Server, fields: dict[str, Any], expected: str | None) -> None:
    url = server.add("/x", _flaky(lambda h: h.ranged(upto=1000, **fields)))
    assert case.fetch(url) == DATA
    assert server.log[1] == ("/x", "bytes=1000-", expected)


def test_version_of_one_address_is_not_asked_of_another(case: Case, server: Server) -> None:
    url = server.add("/x", _flaky(lambda h: h.ranged(upto=1000, ETag='"v1"'), *[lambda h: h.answer(404)] * 2))
    assert case.fetch(url, server.url("/good")) == DATA
    assert server.log[1:] == [("/x", "bytes=1000-", '"v1"'), ("/good", "bytes=1000-", None)]


def test_version_whose_writing_was_cut_off_is_not_used(case: Case, server: Server) -> None:
    case.has(DATA[:1000])
    case.part.with_suffix(".from").write_text(server.url("/good") + '\n"v', "utf-8")
    assert case.fetch(server.url("/good")) == DATA
    assert server.log == [("/good", "bytes=1000-", None)]


def test_file_that_changed_at_the_server_is_started_over(case: Case, server: Server) -> None:
    steps = lambda h: h.ranged(OTHER, upto=1000, ETag='"old"'), lambda h: h.answer(200, DATA, ETag='"new"')
    url = server.add("/x", _flaky(*steps))
    assert case.fetch(url) == DATA
    assert server.log == [("/x", None, None), ("/x", "bytes=1000-", '"old"')]


# Servers that misbehave


def test_server_that_ignores_range(case: Case, server: Server) -> None:
    url = server.add("/whole", lambda h: h.answer(200, DATA))
    case.has(DATA[:1000])
    assert case.fetch(url) == DATA
    assert server.ranges == ["bytes=1000-"]


def test_server_that_ignores_range_and_always_breaks_is_given_up(case: Case, server: Server) -> None:
    cuts = [5000, 4000] * 5  # no progress, though each second is longer than the one before
    url = server.add(
        "/whole", _flaky(*[lambda h, cut=cut: h.answer(200, DATA[:cut], Content_Length=len(DATA)) for cut in cuts])
    )
    message = case.fails(url)
    assert f"at byte 4,000 of 300,000, and {module.RETRIES} retries got no further" in message
    assert len(server.log) == module.RETRIES + 1


@pytest.mark.parametrize(
    ("code", "span"),
    [
        (416, None),
        (416, f"bytes */{len(DATA)}"),
        (206, f"bytes 0-{len(DATA) - 1}/{len(DATA)}"),
        (206, f"bytes 1001-{len(DATA) - 1}/{len(DATA)}"),
        (206, "nonsense"),
        (206, None),
    ],
)
def test_range_that_is_not_the_asked_one_starts_over(case: Case, server: Server, code: int, span: str | None) -> None:
    url = server.add("/x", lambda h: h.answer(code, DATA, Content_Range=span) if h.asked else h.answer(200, DATA))
    case.has(DATA[:1000])
    assert case.fetch(url) == DATA
    assert server.ranges == ["bytes=1000-", None]


@pytest.mark.parametrize("code", [206, 416])
def test_range_of_a_file_of_another_size_keeps_what_is_there(case: Case, server: Server, code: int) -> None:
    url = server.add("/x", lambda h: h.answer(code, DATA[1000:], Content_Range="bytes 1000-1999/2000"))
    case.has(DATA[:1000])
    assert f"{url}: its file has 2,000 bytes, not 300,000" in case.fails(url)
    assert case.part.read_bytes() == DATA[:1000]


@pytest.mark.parametrize("code", [206, 416])
def test_range_without_asking_is_refused(case: Case, server: Server, code: int) -> None:
    assert f"the server answers {code} " in case.fails(server.add("/x", lambda h: h.answer(code, DATA)))


def test_range_of_unknown_whole_and_in_pieces(case: Case, server: Server) -> None:
    def pieces(h: Handler) -> None:
        end = min(h.start + 60_000, len(DATA))
        h.answer(206, DATA[h.start : end], Content_Range=f"bytes {h.start}-{end - 1}/*")

    case.has(DATA[:10])
    assert case.fetch(server.add("/x", pieces)) == DATA
    assert server.ranges == [f"bytes={n}-" for n in range(10, len(DATA), 60_000)]


@pytest.mark.parametrize("said", [len(DATA) - 1, len(DATA) + 1])
def test_wrong_content_length_is_refused_and_keeps_what_is_there(case: Case, server: Server, said: int) -> None:
    url = server.add("/x", lambda h: h.answer(200, DATA, Content_Length=said))
    case.has(DATA[:1000])
    assert f"{url}: its file has {said:,} bytes, not 300,000" in case.fails(url)
    assert case.part.read_bytes() == DATA[:1000]


@pytest.mark.parametrize("said", [None, "many"])
def test_no_content_length(case: Case, server: Server, said: str | None) -> None:
    assert case.fetch(server.add("/x", lambda h: h.answer(200, DATA, Content_Length=said))) == DATA


def test_no_content_length_and_cut_off(case: Case, server: Server) -> None:
    url = server.add("/x", _flaky(lambda h: h.answer(200, DATA[:1000], Content_Length=None)))
    assert case.fetch(url) == DATA
    assert server.ranges == [None, "bytes=1000-"]


def test_chunked_and_cut_off(case: Case, server: Server) -> None:
    def chunked(h: Handler) -> None:
        h.answer(200, b"%x\r\n%b\r\n" % (5000, DATA[:5000]), Content_Length=None, Transfer_Encoding="chunked")

    assert case.fetch(server.add("/x", _flaky(chunked))) == DATA
    assert server.ranges == [None, "bytes=5000-"]


def test_cut_off_again_and_again_goes_on_while_it_gets_further(case: Case, server: Server) -> None:
    cuts = [50_000 * n for n in range(1, 6)]
    assert len(cuts) > module.RETRIES + 1
    url = server.add("/x", _flaky(*[lambda h, cut=cut: h.ranged(upto=cut) for cut in cuts]))
    assert case.fetch(url) == DATA
    assert server.ranges == [None, *[f"bytes={cut}-" for cut in cuts]]


def test_empty_answer_keeps_what_is_there(case: Case, server: Server) -> None:
    url = server.add("/x", lambda h: h.answer(200, Content_Length=None))
    case.has(DATA[:1000])
    assert "the answer is empty at byte 1,000 of 300,000" in case.fails(url)
    assert case.part.read_bytes() == DATA[:1000]


def test_silence_within_the_body(case: Case, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()

    def silent(h: Handler) -> None:
        h.ranged(upto=1000)
        over.wait(20)

    url = server.add("/x", _flaky(silent))
    monkeypatch.setattr(transfer, "READ", 0.2)
    assert case.fetch(url) == DATA
    over.set()
    assert server.ranges == [None, "bytes=1000-"]


def test_silence_instead_of_an_answer(case: Case, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    url = server.add("/x", lambda h: over.wait(20))
    monkeypatch.setattr(transfer, "READ", 0.05)
    assert f"{url}: no answer: " in case.fails(url)
    over.set()
    assert len(server.log) == module.RETRIES + 1


@pytest.mark.parametrize("data", [DATA, OTHER])
def test_endless_body_is_stopped_at_the_size(case: Case, server: Server, data: bytes) -> None:
    hung_up = threading.Event()

    def endless(h: Handler) -> None:
        h.answer(200, data, Content_Length=None)
        try:
            while True:
                h.wfile.write(bytes(100_000))
        except OSError:
            hung_up.set()

    url = server.add("/x", endless)
    if data is DATA:
        assert case.fetch(url) == DATA
    else:
        assert "it gives a file with sha256" in case.fails(url)
        assert list(case.partial.iterdir()) == []
    assert hung_up.wait(10)


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
def test_busy_server_is_asked_again(case: Case, server: Server, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr(module, "LONGEST", 0.0)
    url = server.add("/x", _flaky(*[lambda h: h.answer(code, Retry_After=3600)] * module.RETRIES))
    assert case.fetch(url) == DATA
    assert len(server.log) == module.RETRIES + 1


def test_waits_double_and_retry_after_is_obeyed_up_to_a_limit(
    case: Case, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    monkeypatch.setattr(module, "BACKOFF", 1.0)
    url = server.add("/x", _flaky(*[lambda h, wait=wait: h.answer(429, Retry_After=wait) for wait in (7, 3600)]))
    broken = server.add("/broken", lambda h: h.answer(200, Content_Length=None))
    assert case.fetch(broken, url) == DATA
    assert waits == [1, 2, 4, 7, module.LONGEST]


def test_server_that_stays_busy_gives_way_to_the_next(case: Case, server: Server) -> None:
    url = server.add("/x", lambda h: h.answer(503))
    assert case.fetch(url, server.url("/good")) == DATA
    assert [path for path, _, _ in server.log] == ["/x"] * (module.RETRIES + 1) + ["/good"]
    assert f"{url}: the server answers 503 Service Unavailable" in case.fails_anew(url)


def test_missing_file_is_asked_for_once(case: Case, server: Server) -> None:
    url = server.add("/x", lambda h: h.answer(404))
    assert f"{url}: the server answers 404 Not Found" in case.fails(url)
    assert len(server.log) == 1


@pytest.mark.parametrize(
    ("body", "kind"),
    [(HTML, "text/html; charset=utf-8"), (HTML, "application/x-tar"), (b"\n\n  <HTML>\n", None), (DATA, "text/html")],
)
def test_html_page_is_recognised_and_not_kept(case: Case, server: Server, body: bytes, kind: str | None) -> None:
    url = server.add("/x", lambda h: h.answer(200, body, Content_Type=kind))
    case.has(DATA[:1000])
    assert f"{url}: it gives an HTML page instead of the file" in case.fails(url)
    assert case.part.read_bytes() == DATA[:1000]
    assert case.fetch(url, server.url("/good")) == DATA
    assert server.log[-1] == ("/good", "bytes=1000-", None)


def test_rest_that_looks_like_html_is_kept(tmp_path: Path, server: Server) -> None:
    data = DATA[:1000] + HTML
    archive = Archive(file="x", urls=[server.url("/x")], bytes=len(data), sha256=hashlib.sha256(data).hexdigest())
    server.routes["/x"] = _flaky(lambda h: h.ranged(data, upto=1000), lambda h: h.ranged(data))
    assert fetch(archive, tmp_path / "out", tmp_path / "partial").read_bytes() == data


# Wrong bytes


def test_wrong_sha256_is_deleted_and_the_next_address_tried(case: Case, server: Server, capsys: Any) -> None:
    wrong = server.add("/wrong", lambda h: h.ranged(OTHER))
    assert case.fetch(wrong, server.url("/good")) == DATA
    assert server.log == [("/wrong", None, None), ("/good", None, None)]
    found = hashlib.sha256(OTHER).hexdigest()
    assert f"{wrong}: it gives a file with sha256 {found}, not {SHA256}" in capsys.readouterr().err


def test_wrong_sha256_everywhere_leaves_nothing(case: Case, server: Server) -> None:
    wrong = server.add("/wrong", lambda h: h.ranged(OTHER))
    message = case.fails(wrong)
    assert f"{wrong}: it gives a file with sha256 {hashlib.sha256(OTHER).hexdigest()}, not {SHA256}" in message
    assert "nothing is kept; run the command again to try again" in message
    assert list(case.partial.iterdir()) == []


def test_wrong_beginning_does_not_spoil_a_right_address(case: Case, server: Server) -> None:
    wrong = server.add("/wrong", _flaky(lambda h: h.ranged(OTHER, upto=1000), lambda h: h.answer(404)))
    assert case.fetch(wrong, server.url("/good")) == DATA
    assert server.log[2:] == [("/good", "bytes=1000-", None), ("/good", None, None)]


def test_wrong_beginning_and_wrong_address_end(case: Case, server: Server) -> None:
    case.has(DATA[:1000])
    wrong = server.add("/wrong", lambda h: h.ranged(OTHER))
    assert "it gives a file with sha256" in case.fails(wrong)
    assert server.ranges == ["bytes=1000-", None]


def test_wrong_whole_file_instead_of_the_rest_is_fetched_once(case: Case, server: Server) -> None:
    case.has(DATA[:1000])
    assert "it gives a file with sha256" in case.fails(server.add("/wrong", lambda h: h.answer(200, OTHER)))
    assert server.ranges == ["bytes=1000-"]


# No network


def test_refused_connection(case: Case, server: Server) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/x"
        message = case.fails(url)
        assert f"{url}: no answer: " in message
        assert "refused" in message
        assert "offline" not in message
        assert case.fetch(url, server.url("/good")) == DATA


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            socket.gaierror(socket.EAI_AGAIN, "Temporary failure"),
            "is this machine offline? The server's name cannot be resolved",
        ),
        (
            OSError(errno.ENETUNREACH, "Network is unreachable"),
            "is this machine offline? There is no route to the server",
        ),
    ],
)
def test_offline(case: Case, monkeypatch: pytest.MonkeyPatch, error: OSError, reason: str) -> None:
    def fail(*args: object, **more: object) -> None:
        raise error

    monkeypatch.setattr(socket, "getaddrinfo" if isinstance(error, socket.gaierror) else "socket", fail)
    case.has(DATA[:1000])
    assert case.fails("http://127.0.0.1/a", "http://127.0.0.1/b", "file:none") == "\n  ".join(
        [
            "x.tar: no address gave it",
            f"http://127.0.0.1/a: {reason}",
            f"http://127.0.0.1/b: {reason}",
            f"file:none: {Path('none').absolute()} cannot be read: No such file or directory",
            f"1,000 of 300,000 bytes are kept in {case.part}; run the command again to resume, or add a file: "
            "address of a copy you have to the data set's dataset.yaml",
        ]
    )


# file: addresses


@pytest.mark.parametrize(
    "form", ["file:my copies/x%20.tar", "file:{}/my copies/x%20.tar", "file://{}/my copies/x%20.tar"]
)
def test_copy_at_hand(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, form: str) -> None:
    monkeypatch.chdir(tmp_path)
    copy = tmp_path / "my copies" / "x%20.tar"
    copy.parent.mkdir()
    copy.write_bytes(DATA)
    case.has(DATA[:1000])
    assert case.fetch(form.format(tmp_path)) == DATA
    assert copy.read_bytes() == DATA
    assert "starting over" not in capsys.readouterr().err


def test_copy_at_hand_that_is_missing_or_wrong(case: Case, tmp_path: Path, server: Server) -> None:
    short, wrong = tmp_path / "short", tmp_path / "wrong"
    short.write_bytes(DATA[:-1])
    wrong.write_bytes(OTHER)
    message = case.fails(f"file:{tmp_path}/none", f"file:{tmp_path}", f"file:{short}", f"file:{wrong}")
    assert f"{tmp_path}/none cannot be read: No such file or directory" in message
    assert f"{tmp_path} cannot be read: Is a directory" in message
    assert f"file:{short}: its file has 299,999 bytes, not 300,000" in message
    assert f"file:{wrong}: it gives a file with sha256 {hashlib.sha256(OTHER).hexdigest()}" in message
    assert "offline" not in message
    assert case.fetch(f"file:{short}", server.url("/good")) == DATA


# The disk


def test_full_disk_keeps_the_partial(case: Case, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.open

    def small(path: Path, mode: str = "r", *args: Any, **more: Any) -> Any:
        file = real(path, mode, *args, **more)
        if path != case.part or mode == "rb":
            return file
        write = file.write

        class Full:
            def __enter__(self) -> Any:
                return self

            def __exit__(self, *error: object) -> None:
                file.close()

            def flush(self) -> None:
                file.flush()

            def write(self, chunk: bytes) -> int:
                if file.tell() + len(chunk) > 50_000:
                    raise OSError(errno.ENOSPC, "No space left on device")
                return int(write(chunk))

        return Full()

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", small)
        message = case.fails(server.url("/good"), server.url("/good"))
    kept = case.part.stat().st_size
    assert 0 < kept <= 50_000
    assert message == (
        f"x.tar: the disk is full, it needs {len(DATA) - kept:,} more bytes in {case.partial}\n"
        f"  {kept:,} of 300,000 bytes are kept in {case.part}; make room and run the command again"
    )
    assert case.fetch(server.url("/good")) == DATA
    assert server.ranges == [None, f"bytes={kept}-"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_device_that_is_full(case: Case, server: Server) -> None:
    case.partial.mkdir()
    case.part.symlink_to("/dev/full")
    assert f"the disk is full, it needs 300,000 more bytes in {case.partial}" in case.fails(server.url("/good"))


def _other_file_system(source: Path, target: Path, real: Callable[[Path, Path], None] = os.replace) -> None:
    if source.parent != target.parent:
        raise OSError(errno.EXDEV, "Invalid cross-device link")
    real(source, target)


def test_other_file_system(case: Case, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "replace", _other_file_system)
    assert case.fetch(server.url("/good")) == DATA


def test_other_file_system_that_is_full(case: Case, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", _other_file_system)
    with monkeypatch.context() as patch:
        patch.setattr("shutil.copyfile", full)
        assert f"the disk is full, it needs 300,000 bytes in {case.folder}" in case.fails(server.url("/good"))
    assert case.part.read_bytes() == DATA
    assert case.fetch(server.url("/good")) == DATA
    assert len(server.log) == 1


# Progress


def test_lines_without_a_terminal(case: Case, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(archive, "BIG", 1)
    case.has(DATA[:200_000])
    case.fetch(server.url("/good"))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == f"x.tar: from {server.url('/good')}, resuming at byte 200,000"
    assert lines[1].startswith("x.tar: 7") and lines[1].endswith("% of 300,000 bytes")
    assert "x.tar: 100% of 300,000 bytes" in lines
    assert "checking x.tar: 100% of 300,000 bytes" in lines
    assert len(lines) <= 1 + 4 + 10


def test_small_file_is_checked_silently(case: Case, server: Server, capsys: Any) -> None:
    case.fetch(server.url("/good"))
    assert "checking" not in capsys.readouterr().err


def test_bar_on_a_terminal(case: Case, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    case.has(DATA[:150_000])
    case.fetch(server.url("/good"))
    bars = capsys.readouterr().err.split("\r")
    assert bars[1].startswith("x.tar:  50%|") and "150k/300k" in bars[1]
    assert "300k/300k" in bars[-1]
    assert not any("% of" in bar for bar in bars)
