"""`fetch` against a real server on this machine that behaves well, badly, or not at all."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from timeplex.datasets import benchmarks
from timeplex.datasets.benchmarks import CHUNK, Benchmark, Source, fetch, locate
from timeplex.errors import DownloadError
from timeplex.kb.dates import Granularity

BODY = bytes(range(256)) * 1000 + b"the end"  # several chunks, and every byte value
HALF = 2 * CHUNK + 17


class Handler(BaseHTTPRequestHandler):
    """Answers by the first part of the path: /good/…, /cut/…, /missing/… and so on."""

    server: "Server"

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.asked.append(asked)
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        getattr(self, self.path.split("/")[1])(start)

    def answer(self, status: int, body: bytes, headers: dict[str, Any]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def whole(self, start: int) -> None:
        """Ignores the range."""
        self.answer(200, BODY, {"Content-Length": len(BODY)})

    def good(self, start: int) -> None:
        """Answers a range by the book."""
        if start >= len(BODY):
            self.answer(416, b"", {"Content-Range": f"bytes */{len(BODY)}", "Content-Length": 0})
        elif start:
            rest = BODY[start:]
            within = f"bytes {start}-{len(BODY) - 1}/{len(BODY)}"
            self.answer(206, rest, {"Content-Range": within, "Content-Length": len(rest)})
        else:
            self.whole(start)

    def flood(self, start: int) -> None:
        """Says no length and never ends."""
        self.send_response(200)
        self.end_headers()
        while True:
            try:
                self.wfile.write(BODY)
            except OSError:
                return

    def boastful(self, start: int) -> None:
        """Announces more than it has."""
        self.answer(200, BODY, {"Content-Length": 10**12})

    def cut(self, start: int) -> None:
        """Breaks off in the middle of the first answer; goes on when asked to."""
        if start:
            self.good(start)
        else:
            self.answer(200, BODY[:HALF], {"Content-Length": len(BODY)})

    def piecemeal(self, start: int) -> None:
        """Sends less of the range than was asked for, which HTTP allows."""
        piece = BODY[start : start + CHUNK]
        within = f"bytes {start}-{start + len(piece) - 1}/{len(BODY)}"
        self.answer(206, piece, {"Content-Range": within, "Content-Length": len(piece)})

    def astray(self, start: int) -> None:
        """Answers a range with another one."""
        if start:
            within = f"bytes 1-{len(BODY) - 1}/{len(BODY)}"
            self.answer(206, BODY[1:], {"Content-Range": within, "Content-Length": len(BODY) - 1})
        else:
            self.whole(start)

    def endless(self, start: int) -> None:
        """Does not say how long the file is."""
        self.answer(200, BODY, {})

    def missing(self, start: int) -> None:
        self.answer(404, b"not here", {"Content-Length": 8})

    def busy(self, start: int) -> None:
        self.answer(503, b"", {"Content-Length": 0})

    def nothing(self, start: int) -> None:
        self.answer(204, b"", {})

    def slow(self, start: int) -> None:
        self.server.closing.wait(10)

    def stalls(self, start: int) -> None:
        """Begins to answer and then falls silent."""
        self.answer(200, BODY[:HALF], {"Content-Length": len(BODY)})
        self.wfile.flush()
        self.server.closing.wait(10)

    def elsewhere(self, start: int) -> None:
        self.answer(302, b"", {"Location": "/good/file", "Content-Length": 0})

    def ftp(self, start: int) -> None:
        self.answer(302, b"", {"Location": "ftp://127.0.0.1/file", "Content-Length": 0})

    def file(self, start: int) -> None:
        self.answer(302, b"", {"Location": "file:///etc/hostname", "Content-Length": 0})

    def log_message(self, format: str, *args: Any) -> None:
        """Be quiet."""


class Server(ThreadingHTTPServer):
    daemon_threads = False  # so that closing waits for the handlers and no socket stays open

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str | None] = []
        self.closing = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is what some tests want."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.closing.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "new folder" / "file.txt"


def part_of(target: Path, content: bytes | None = None) -> Path:
    part = target.with_name(target.name + ".part")
    if content is not None:
        part.parent.mkdir()
        part.write_bytes(content)
    return part


def failure(url: str, target: Path, timeout: float = 5) -> DownloadError:
    with pytest.raises(DownloadError) as caught:
        fetch(url, target, timeout=timeout)
    assert not target.exists(), "half a file has the final name"
    assert "\n" not in str(caught.value)
    assert caught.value.hint
    return caught.value


def test_a_file_is_fetched_whole(server: Server, target: Path) -> None:
    assert fetch(f"{server.address}/good/file", target) == target
    assert target.read_bytes() == BODY
    assert server.asked == [None]
    assert not part_of(target).exists()


@pytest.mark.parametrize("kind", ["flood", "boastful"])
def test_a_download_has_a_largest_size(server: Server, target: Path, kind: str) -> None:
    with pytest.raises(DownloadError, match="it is larger than 1 MB"):
        fetch(f"{server.address}/{kind}/file", target, most=1_000_000)
    assert not target.exists()
    assert not part_of(target).exists()


def test_a_download_has_a_longest_time(server: Server, target: Path) -> None:
    with pytest.raises(DownloadError, match="it takes too long"):
        fetch(f"{server.address}/flood/file", target, longest=0.1)
    assert not target.exists()


def test_an_older_target_is_replaced(server: Server, target: Path) -> None:
    target.parent.mkdir()
    target.write_bytes(b"older")
    fetch(f"{server.address}/good/file", target)
    assert target.read_bytes() == BODY


def test_a_redirect_is_followed(server: Server, target: Path) -> None:
    assert fetch(f"{server.address}/elsewhere/file", target).read_bytes() == BODY


@pytest.mark.parametrize(("scheme", "why"), [("ftp", "unknown url type"), ("file", "not allowed")])
def test_a_redirect_does_not_leave_the_web(server: Server, target: Path, scheme: str, why: str) -> None:
    assert why in failure(f"{server.address}/{scheme}/file", target).problem


def test_progress_ends_with_all_bytes(server: Server, target: Path) -> None:
    told: list[tuple[int, int | None]] = []
    fetch(f"{server.address}/good/file", target, progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (len(BODY), len(BODY))
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    assert len(told) > 2


def test_progress_without_a_length(server: Server, target: Path) -> None:
    told: list[tuple[int, int | None]] = []
    fetch(f"{server.address}/endless/file", target, progress=lambda done, total: told.append((done, total)))
    assert target.read_bytes() == BODY
    assert told[-1] == (len(BODY), None)


def test_a_cut_off_transfer_is_told_and_then_goes_on_from_where_it_stopped(server: Server, target: Path) -> None:
    url = f"{server.address}/cut/file"
    error = failure(url, target)
    assert "cut off" in error.problem
    assert "run the command again to go on" in error.hint
    part = part_of(target)
    assert part.read_bytes() == BODY[:HALF]

    told: list[tuple[int, int | None]] = []
    fetch(url, target, progress=lambda done, total: told.append((done, total)))
    assert server.asked == [None, f"bytes={HALF}-"]
    assert target.read_bytes() == BODY
    assert not part.exists()
    assert all(done > HALF and total == len(BODY) for done, total in told)


def test_the_bytes_at_hand_are_not_asked_for_again(server: Server, target: Path) -> None:
    marked = b"x" * HALF  # not what the server has, so that we see who wrote these bytes
    part_of(target, marked)
    fetch(f"{server.address}/good/file", target)
    assert target.read_bytes() == marked + BODY[HALF:]


def test_a_server_that_ignores_ranges_makes_it_start_again(server: Server, target: Path) -> None:
    part_of(target, b"x" * HALF)
    fetch(f"{server.address}/whole/file", target)
    assert server.asked == [f"bytes={HALF}-"]
    assert target.read_bytes() == BODY


def test_another_range_than_asked_for_makes_it_start_again(server: Server, target: Path) -> None:
    part_of(target, BODY[:HALF])
    fetch(f"{server.address}/astray/file", target)
    assert server.asked == [f"bytes={HALF}-", None]
    assert target.read_bytes() == BODY


def test_a_part_that_is_whole_needs_no_byte_more(server: Server, target: Path) -> None:
    part_of(target, BODY)
    fetch(f"{server.address}/good/file", target)
    assert server.asked == [f"bytes={len(BODY)}-"]
    assert target.read_bytes() == BODY


def test_a_part_that_is_too_long_makes_it_start_again(server: Server, target: Path) -> None:
    part_of(target, BODY + b"more")
    fetch(f"{server.address}/good/file", target)
    assert server.asked == [f"bytes={len(BODY) + 4}-", None]
    assert target.read_bytes() == BODY


def test_a_range_answered_in_part_is_a_cut_off_transfer(server: Server, target: Path) -> None:
    part_of(target, BODY[:HALF])
    assert "cut off" in failure(f"{server.address}/piecemeal/file", target).problem
    assert part_of(target).read_bytes() == BODY[: HALF + CHUNK]


def test_a_server_that_falls_silent_leaves_the_part(server: Server, target: Path) -> None:
    error = failure(f"{server.address}/stalls/file", target, timeout=0.3)
    assert "cut off" in error.problem
    kept = part_of(target).read_bytes()
    assert kept
    assert BODY.startswith(kept)


def test_a_slow_server_is_given_up(server: Server, target: Path) -> None:
    assert "silent for 0.3 seconds" in failure(f"{server.address}/slow/file", target, timeout=0.3).problem


@pytest.mark.parametrize(
    ("path", "status", "hint"),
    [("missing", "404", "moved"), ("busy", "503", "later"), ("nothing", "204", "later")],
)
def test_an_answer_without_the_file(server: Server, target: Path, path: str, status: str, hint: str) -> None:
    error = failure(f"{server.address}/{path}/file", target)
    assert status in error.problem
    assert hint in error.hint
    assert not part_of(target).exists()


def test_no_server_at_all(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound but not listening: nobody else gets the port
        error = failure(f"http://127.0.0.1:{unused.getsockname()[1]}/file", target)
    assert "refused" in error.problem


@pytest.mark.parametrize(
    "url",
    ["file:///etc/hostname", "ftp://127.0.0.1/file", "data:,text", "train.txt", "", "http://", "http://[::1"],
)
def test_only_the_web_is_fetched_from(target: Path, url: str) -> None:
    assert "not an address" in failure(url, target).problem


def test_an_address_with_a_blank_is_one_sentence(target: Path) -> None:
    failure("http://127.0.0.1/a file", target)


def test_a_folder_that_cannot_be_made_is_one_sentence(server: Server, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    with pytest.raises(DownloadError, match="cannot be written"):
        fetch(f"{server.address}/good/file", tmp_path / "taken" / "file.txt")


def test_a_download_with_the_wrong_facts_leaves_nothing(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server hands out something else than the benchmark; `locate` must not keep any of it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("TIMEPLEX_DATA", raising=False)
    splits = ("train", "valid", "test")
    source = Source(f"{server.address}/good", {split: f"{split}.txt" for split in splits})
    numbers = dict.fromkeys(splits, 1)
    wrong = dict.fromkeys(splits, "0" * 64)
    tiny = Benchmark("tiny", "Tiny", "", "", "", Granularity.YEAR, numbers, 2, 1, wrong, source)
    monkeypatch.setitem(benchmarks.BENCHMARKS, "tiny", tiny)
    with pytest.raises(DownloadError, match=r"/good/train\.txt does not hold the train facts of Tiny"):
        locate("tiny")
    assert len(server.asked) == 3
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert not (tmp_path / "timeplex" / "data" / "tiny").exists()
