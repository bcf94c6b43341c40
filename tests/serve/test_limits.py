"""Each limit, just kept and just broken: the one is answered, the other refused as it should be."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from tests.patience import patience
from tests.serve.asked import client, service, serving

from timeplex.errors import InputError
from timeplex.serve import server
from timeplex.serve.app import create_app
from timeplex.serve.asked import Question, Triple
from timeplex.serve.limits import (
    LATER,
    LONGEST_NAME,
    MOST_ANSWERS,
    MOST_EXPLAINED,
    MOST_IN_ALL,
    MOST_NEIGHBOURS,
    MOST_QUESTIONS,
    MOST_ROWS,
)
from timeplex.serve.safety import MOST_BODY, Limits

WHO = {"relation": "bornIn", "subject": "person 03"}
WHEN = {"subject": "person 03", "relation": "bornIn", "object": "Oslo"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(create_app(service())) as found:
        yield found


def test_the_limits_are_those_that_were_promised() -> None:
    assert (MOST_BODY, MOST_ANSWERS, MOST_QUESTIONS, LONGEST_NAME) == (64 * 1024, 1000, 256, 512)


def name(length: int) -> str:
    return "x" * length


@pytest.mark.parametrize(
    ("path", "body", "kept"),
    [
        ("rank", lambda n: {"questions": [WHO], "k": n}, MOST_ANSWERS),
        ("rank", lambda n: {"questions": [WHO] * n, "k": 1}, MOST_QUESTIONS),
        ("rank", lambda n: {"questions": [WHO] * 25, "k": n - 25 * 1024 + 999 + 1}, 25 * 1024),
        ("rank", lambda n: {"questions": [WHO] * 20, "k": n, "why": True}, MOST_EXPLAINED // 20),
        ("rank", lambda n: {"questions": [{**WHO, "subject": name(n)}]}, LONGEST_NAME),
        ("rank", lambda n: {"questions": [{**WHO, "relation": name(n)}]}, LONGEST_NAME),
        ("rank", lambda n: {"questions": [{**WHO, "at": " " * (n - 4) + "1930"}]}, LONGEST_NAME),
        ("when", lambda n: {"questions": [WHEN] * n}, MOST_QUESTIONS),
        ("when", lambda n: {"questions": [{**WHEN, "object": name(n)}]}, LONGEST_NAME),
        ("explain", lambda n: {"questions": [WHEN] * n}, MOST_QUESTIONS),
        ("explain", lambda n: {"questions": [{**WHEN, "object": name(n)}]}, LONGEST_NAME),
        ("fill", lambda n: {"rows": [{"subject": "person 03", "relation": "bornIn"}] * n}, MOST_QUESTIONS),
        ("fill", lambda n: {"rows": [{"subject": name(n)}]}, LONGEST_NAME),
        ("discover", lambda n: {"relations": ["bornIn"] * n}, MOST_QUESTIONS),
        ("discover", lambda n: {"relations": ["bornIn"], "limit": n}, MOST_ANSWERS),
        ("discover", lambda n: {"relations": ["bornIn"], "offset": n}, LATER),
    ],
)
def test_limits_of_what_is_posted(url: str, path: str, body: Any, kept: int) -> None:
    with client(url) as asking:
        for number, status in ((kept, {200, 404}), (kept + 1, {422})):
            answer = asking.post(f"/v1/{path}", json=body(number))
            assert answer.status_code in status, answer.text[:300]


@pytest.mark.parametrize("path", ["rank", "when", "explain", "fill"])
def test_no_question_at_all_is_refused(url: str, path: str) -> None:
    with client(url) as asking:
        assert asking.post(f"/v1/{path}", json={"rows" if path == "fill" else "questions": []}).status_code == 422


@pytest.mark.parametrize(
    ("path", "field", "kept", "broken"),
    [
        *((path, "limit", MOST_ROWS, MOST_ROWS + 1) for path in ("entities", "entities/Oslo", "relations", "facts")),
        *((path, "limit", 1, 0) for path in ("entities", "entities/Oslo", "relations", "facts", "findings")),
        *((path, "offset", 0, -1) for path in ("entities", "entities/Oslo", "relations", "facts", "findings")),
        *((path, "offset", LATER, LATER + 1) for path in ("entities", "relations", "facts", "findings")),
        ("findings", "limit", MOST_ROWS, MOST_ROWS + 1),
        ("findings", "min_severity", 1, 1.0000001),
        ("findings", "min_severity", 0, -0.0000001),
        ("entities", "q", name(LONGEST_NAME), name(LONGEST_NAME + 1)),
        *(("facts", field, name(LONGEST_NAME), name(LONGEST_NAME + 1)) for field in ("entity", "subject", "relation")),
        ("facts", "at", "1930".rjust(LONGEST_NAME), "1930".rjust(LONGEST_NAME + 1)),
        ("findings", "rule", name(LONGEST_NAME), name(LONGEST_NAME + 1)),
    ],
)
def test_limits_of_what_is_looked_up(url: str, path: str, field: str, kept: object, broken: object) -> None:
    with client(url) as asking:
        for value, statuses in ((kept, {200, 404}), (broken, {422})):
            answer = asking.get(f"/v1/{path}", params={field: str(value)})
            assert answer.status_code in statuses, answer.text[:300]


def test_the_limit_of_a_name_in_the_path(url: str) -> None:
    with client(url) as asking:
        assert asking.get(f"/v1/entities/{name(LONGEST_NAME)}").status_code == 404
        assert asking.get(f"/v1/entities/{name(LONGEST_NAME + 1)}").status_code == 422


def test_limits_hold_in_python_too() -> None:
    asked, who, when = service(), Question(**WHO), Triple(**WHEN)
    assert len(asked.rank([who], k=MOST_ANSWERS)) == 1
    assert len(asked.when([when] * MOST_QUESTIONS)) == MOST_QUESTIONS
    assert asked.neighbours("Oslo", MOST_NEIGHBOURS)["items"]
    for broken in (
        lambda: asked.rank([who], k=MOST_ANSWERS + 1),
        lambda: asked.rank([who], k=0),
        lambda: asked.rank([who] * (MOST_QUESTIONS + 1)),
        lambda: asked.rank([who] * 26, k=MOST_IN_ALL // 26 + 1),
        lambda: asked.rank([]),
        lambda: asked.when([when] * (MOST_QUESTIONS + 1)),
        lambda: asked.explain_all([when] * (MOST_QUESTIONS + 1), [("..", "object")] * (MOST_QUESTIONS + 1)),
        lambda: asked.fill([{}] * (MOST_QUESTIONS + 1)),
        lambda: asked.discover(["bornIn"] * (MOST_QUESTIONS + 1)),
        lambda: asked.discover(min_probability=1.1),
        lambda: asked.search("x" * (LONGEST_NAME + 1)),
        lambda: asked.search("", MOST_ROWS + 1),
        lambda: asked.neighbours("Oslo", MOST_NEIGHBOURS + 1),
        lambda: asked.entity("x" * (LONGEST_NAME + 1)),
        lambda: asked.facts(at="1930".rjust(LONGEST_NAME + 1)),
    ):
        with pytest.raises(InputError):
            broken()
    assert "error" in asked.rank([Question("x" * (LONGEST_NAME + 1), subject="person 03")])[0]


# The body ----------------------------------------------------------------------------------------------------------


def padded(length: int) -> bytes:
    """A request for an answer that is so many bytes long."""
    body = json.dumps({"questions": [WHEN]}).encode()
    return body + b" " * (length - len(body))


@pytest.mark.parametrize("streamed", [False, True])
def test_the_size_of_a_body_is_counted_whether_it_is_stated_or_streams(url: str, streamed: bool) -> None:
    for length, status in ((MOST_BODY, 200), (MOST_BODY + 1, 413)):
        content: Any = padded(length)
        if streamed:
            content = (padded(length)[start : start + 1000] for start in range(0, length, 1000))
        with client(url) as asking:
            answer = asking.post("/v1/when", content=content, headers={"content-type": "application/json"})
        assert answer.status_code == status
    assert answer.json()["error"] == "A request has at most 65,536 bytes."


def test_a_body_that_is_said_to_be_too_large_is_not_waited_for(url: str) -> None:
    with raw(url) as wire:
        wire.sendall(f"POST /v1/when HTTP/1.1\r\nHost: localhost\r\nContent-Length: {MOST_BODY + 1}\r\n\r\n".encode())
        assert wire.recv(4096).startswith(b"HTTP/1.1 413")


def test_a_body_must_come_in_time() -> None:
    with serving(create_app(service(), limits=Limits(body_seconds=0.5))) as found:
        for pause, status in ((0.0, b"200"), (patience(1.5), b"408")):
            with raw(found) as wire:
                body = padded(200)
                head = "POST /v1/when HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                wire.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:10])
                time.sleep(pause)
                if not pause:
                    wire.sendall(body[10:])
                assert wire.recv(4096).split()[1] == status


def test_the_size_of_a_head_is_counted(url: str) -> None:
    target, headers = b"/healthz?q", [(b"host", b"localhost"), (b"x", b"")]
    left = Limits().head - len(target) - sum(len(part) for pair in headers for part in pair)
    for more, status in ((left, b"200"), (left + 1, b"431"), (10 * MOST_BODY, b"400")):
        with raw(url) as wire:
            wire.sendall(b"GET /healthz?q HTTP/1.1\r\nHost: localhost\r\nx: " + b"y" * more + b"\r\n\r\n")
            assert wire.recv(4096).split()[1] == status


def test_a_head_must_come_in_time(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    start = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.3)
    with raw(url) as quick, raw(url) as slow, raw(url) as silent:
        slow.sendall(start)
        quick.sendall(start + b"\r\n")
        assert quick.recv(4096).startswith(b"HTTP/1.1 200")
        assert slow.recv(4096) == b""
        assert silent.recv(4096) == b""
        quick.sendall(start)  # a second request on the same connection
        assert quick.recv(4096) == b""


# How many, how long ------------------------------------------------------------------------------------------------


class Gate:
    """An application route that waits until it is opened, and knows how many wait in it."""

    def __init__(self) -> None:
        self.inside, self.open, self._lock = 0, threading.Event(), threading.Lock()

    def __call__(self) -> dict[str, str]:
        with self._lock:
            self.inside += 1
        assert self.open.wait(patience(30))
        return {"said": "open"}

    def wait(self, number: int) -> None:
        until = time.monotonic() + patience(30)
        while self.inside < number:
            assert time.monotonic() < until
            time.sleep(0.005)


def test_so_many_requests_are_answered_at_once_and_one_more_is_told_to_come_again() -> None:
    gate, app = Gate(), create_app(service(), limits=Limits(requests=3))
    app.get("/gate")(gate.__call__)
    with serving(app) as found, client(found) as asking, ThreadPoolExecutor(4) as pool:
        running = [pool.submit(asking.get, "/gate") for _ in range(2)]
        gate.wait(2)
        assert asking.get("/v1/kb").status_code == 200  # the third
        running.append(pool.submit(asking.get, "/gate"))
        gate.wait(3)
        answer = asking.get("/v1/kb")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert asking.get("/healthz").status_code == 200
        gate.open.set()
        assert [each.result().status_code for each in running] == [200] * 3
        assert asking.get("/v1/kb").status_code == 200


def test_so_many_may_send_at_once_and_one_more_is_told_to_come_again() -> None:
    with serving(create_app(service(), limits=Limits(receiving=2))) as found, client(found) as asking:
        with ExitStack() as senders:
            head = b"POST /v1/when HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{"
            senders.enter_context(raw(found)).sendall(head)
            eventually(lambda: asking.get("/v1/kb").status_code == 200)
            senders.enter_context(raw(found)).sendall(head)
            eventually(lambda: asking.get("/v1/kb").status_code == 503)
            assert asking.get("/v1/kb").headers["retry-after"] == "1"
        eventually(lambda: asking.get("/v1/kb").status_code == 200)


def test_an_answer_must_come_in_time_and_its_place_is_free_again_when_it_has_ended() -> None:
    gate, app = Gate(), create_app(service(), limits=Limits(requests=1, seconds=0.5))
    app.get("/gate")(gate.__call__)
    with serving(app) as found, client(found) as asking:
        answer = asking.get("/gate")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "10")
        assert "takes longer" in answer.json()["error"]
        assert asking.get("/v1/kb").json()["error"] == "Too many ask at the same time."  # it still works on it
        gate.open.set()
        eventually(lambda: asking.get("/v1/kb").status_code == 200)
        assert asking.get("/gate").status_code == 200


def test_so_many_connections_are_open_and_one_more_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 3)
    with serving(create_app(service())) as found, ExitStack() as opened:
        for expected in (b"200", b"200", b"200", b"503"):
            wire = opened.enter_context(raw(found))
            wire.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = wire.recv(4096)
            assert answer.split()[1] == expected
        assert b"retry-after" in answer


def eventually(holds: Any) -> None:
    until = time.monotonic() + patience(20)
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.02)


def raw(url: str) -> socket.socket:
    """A connection to say anything on."""
    where = httpx.URL(url)
    return socket.create_connection((where.host, where.port or 80), timeout=patience(30))


# The address -------------------------------------------------------------------------------------------------------


def test_any_address_but_this_machine_needs_a_token_and_no_short_one() -> None:
    for host in ("127.0.0.1", "localhost", "127.0.0.2"):
        server.opened(host, 0, None).close()
    with pytest.raises(InputError, match="there is no token"):
        server.opened("0.0.0.0", 0, None)
    server.opened("0.0.0.0", 0, "x" * server.LEAST_TOKEN).close()
    with pytest.raises(InputError, match="15 characters, at least 16"):
        server.opened("0.0.0.0", 0, "x" * (server.LEAST_TOKEN - 1))
    for token in ("x" * 20 + " ", "ü" * 20, "x" * 20 + "\n"):
        with pytest.raises(InputError, match="a header cannot hold"):
            server.opened("127.0.0.1", 0, token)
    with pytest.raises(InputError, match="no address of this machine"):
        server.opened("no such host", 0, None)


def test_a_port_in_use_is_told_in_a_sentence() -> None:
    with server.opened("127.0.0.1", 0, None) as taken:
        port = taken.getsockname()[1]
        assert server.url(taken, "127.0.0.1") == f"http://127.0.0.1:{port}/"
        assert server.url(taken, "::1") == f"http://[::1]:{port}/"
        with pytest.raises(InputError, match=f"Port {port} of 127.0.0.1 cannot be used: address already in use"):
            server.opened("127.0.0.1", port, None)
