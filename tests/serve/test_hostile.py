"""Requests that nobody means well with: two thousand of them, after which the server answers as before.

Bytes that are no HTTP, sizes that are lies, encodings that are none, bodies that come slowly or never, connections that
are closed half-way. `TIMEPLEX_HOSTILE` sets another number.
"""

import json
import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

import httpx
import pytest
from tests.patience import patience
from tests.serve.asked import NAMES, client, service, serving

from timeplex.serve import server
from timeplex.serve.app import create_app
from timeplex.serve.safety import MOST_BODY, Limits

REQUESTS = int(os.environ.get("TIMEPLEX_HOSTILE", "2000"))
AT_ONCE = 24
PATHS = ("/v1/kb", "/v1/entities", "/v1/facts", "/v1/rank", "/v1/when", "/v1/explain", "/v1/fill", "/v1/discover")
PATHS += ("/mcp", "/healthz", "/openapi.json", "/", "/nothing", "/v1/entities/x", "/v1/findings")
POSTED = ("/v1/rank", "/v1/when", "/v1/explain", "/v1/fill", "/v1/discover", "/mcp")

Draw = random.Random
Attack = Callable[[Draw], bytes]


def junk(draw: Draw) -> bytes:
    """No HTTP at all."""
    return draw.randbytes(draw.randint(1, 3000))


def odd_line(draw: Draw) -> bytes:
    """A first line that is nearly one."""
    method = draw.choice([b"GET", b"get", b"POST", b"\x00", b"G" * 9000, b"CONNECT", b"PRI", b"TRACE", "ГЕТ".encode()])
    version = draw.choice([b"HTTP/1.1", b"HTTP/9.9", b"HTTP/2.0", b"", b"HTTP/1.1\r\nHost: localhost", b"\xff"])
    target = draw.choice(
        [b"/v1/kb", b"*", b"http://evil.example/", b"/%", b"/%zz%00%ff", b"/" + b"a" * 70_000, b"//", b""]
    )
    return method + b" " + target + b" " + version + b"\r\nHost: localhost\r\n\r\n"


def odd_path(draw: Draw) -> bytes:
    """Paths and queries that lead elsewhere, or nowhere."""
    parts = [
        "..",
        "%2e%2e",
        "%2f",
        "%00",
        "%ff%fe",
        "etc",
        "passwd",
        "\\",
        "..%5c",
        "v1",
        "entities",
        "a" * 600,
        "%F0%9F%92%A9",
    ]
    path = "/" + "/".join(draw.choice(parts) for _ in range(draw.randint(1, 8)))
    names = ["q", "limit", "offset", "at", "token", "entity", "min_severity", "%00", "limit%5B%5D"]
    values = [
        "-1",
        "1e999",
        "nan",
        "9" * 400,
        "%ff",
        "%F0",
        "../..",
        "2000..1",
        "a" * 513,
        "1%2C2",
        "",
        "inf",
        "0x10",
        "%E2%80%AE",
    ]
    query = "&".join(f"{draw.choice(names)}={draw.choice(values)}" for _ in range(draw.randint(0, 6)))
    base = draw.choice(["", "/v1/entities", "/v1/facts", "/v1/findings"])
    return f"GET {base}{path if draw.random() < 0.5 else ''}?{query} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def odd_headers(draw: Draw) -> bytes:
    """Headers that contradict each other, or are too many, too long, no text."""
    lines = [b"GET " + draw.choice(PATHS).encode() + b" HTTP/1.1"]
    pool = [
        b"Host: localhost",
        b"Host: evil.example",
        b"Host: ",
        b"Host: localhost\x00",
        b"Host: [::1",
        b"Content-Length: -5",
        b"Content-Length: 99999999999999999999",
        b"Content-Length: 5",
        b"Content-Length: 6",
        b"Transfer-Encoding: chunked",
        b"Transfer-Encoding: gzip, chunked",
        b"Transfer-Encoding: \x0bchunked",
        b"Connection: upgrade",
        b"Upgrade: websocket",
        b"Expect: 100-continue",
        b"Cookie: timeplex=" + b"x" * 5000,
        b'Cookie: =;;;"',
        b"Authorization: Bearer \xff\xfe",
        b": nothing",
        b"no colon",
        b" folded: 1",
        b"X: " + b"y" * 70_000,
        b"Accept-Encoding: \x00",
        b"Range: bytes=0-,1-",
        b"Content-Type: multipart/form-data; boundary=",
        b"Sec-Fetch-Site: cross-site",
        b"Origin: null",
    ]
    lines += [draw.choice(pool) for _ in range(draw.choice([1, 2, 3, 6, 300]))]
    return b"\r\n".join(lines) + b"\r\n\r\n" + draw.randbytes(draw.choice([0, 5, 6]))


def odd_body(draw: Draw) -> bytes:
    """Bodies that are no JSON, or the wrong one."""
    text = draw.choice(
        [
            b"",
            b"{",
            b"[" * 30_000,
            b'{"questions":' * 4000,
            b'{"questions": [' + b"1," * 20_000 + b"1]}",
            b"\xff\xfe{\x00}\x00",
            b'"\\ud800"',
            b'{"questions": [{"subject": "\\ud800", "relation": "bornIn"}]}',
            b'{"questions": [{"subject": "\\u0000", "relation": "bornIn"}], "k": 1e400}',
            b'{"k": ' + b"9" * 6000 + b"}",
            b'{"questions": [{"subject": NaN, "relation": Infinity}]}',
            b'{"questions": null, "questions": [], "__proto__": {}}',
            '{"rows": [{"subject": "\u202e\x1b[31m"}]}'.encode(),
            b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "../../x", "arguments": []}}',
            b'{"jsonrpc": "2.0", "id": {"a": 1}, "method": "initialize", "params": ' + b"[" * 900 + b"]" * 900 + b"}",
            draw.randbytes(draw.randint(1, MOST_BODY)),
        ]
    )
    kind = draw.choice(
        ["application/json", "text/plain", "application/json; charset=utf-16", "", "\t", "multipart/form-data"]
    )
    accept = draw.choice(["application/json, text/event-stream", "*/*", ""])
    head = f"POST {draw.choice(POSTED)} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nAccept: {accept}\r\n"
    return f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text


def odd_question(draw: Draw) -> bytes:
    """Questions of the right shape about things that are none."""
    names = [*NAMES, "", " ", "x" * 512, "person", "\u0000", "%s%n", "\U000e0041", "=1+1", "Q1", "0"]
    times = [
        "..",
        "2000",
        "1930..1940",
        "1940..1930",
        "99999",
        "-5",
        "19##",
        "0000-00-00",
        "1 May 1930",
        " ",
        "…",
        "1930.." * 80,
    ]

    def name() -> str:
        return draw.choice(names)

    question = {"subject": name(), "relation": draw.choice(["bornIn", "livesIn", name()]), "object": name()}
    who = {"relation": "bornIn", draw.choice(["subject", "object"]): name(), "at": draw.choice(times)}
    path, body = draw.choice(
        [
            ("rank", {"questions": [who] * draw.choice([1, 3, 256]), "k": draw.choice([0, 1, 100, 1000, 10**6])}),
            ("rank", {"questions": [who], "why": True}),
            ("when", {"questions": [question] * draw.choice([1, 40]), "curve": True, "why": True}),
            ("explain", {"questions": [{**question, "at": draw.choice(times)}] * draw.choice([1, 9])}),
            (
                "fill",
                {"rows": [{**question, "object": None, "begin": draw.choice(times)}, {}, {"end": draw.choice(times)}]},
            ),
            ("discover", {"relations": [name() for _ in range(draw.choice([1, 256]))]}),
        ]
    )
    text = json.dumps(body).encode()
    head = f"POST /v1/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text


def odd_size(draw: Draw) -> bytes:
    """Sizes that are lies, and chunks that are none."""
    head = f"POST {draw.choice(POSTED)} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n".encode()
    stated = draw.choice([1, 100, MOST_BODY, MOST_BODY + 1, 10**12])
    plain = head + f"Content-Length: {stated}\r\n\r\n".encode() + b" " * draw.choice([0, 1, 99, MOST_BODY + 1])
    chunk = draw.choice(
        [
            b"5\r\nabcde\r\n",
            b"ffffffffff\r\n",
            b"-1\r\n",
            b"zz\r\n",
            b"5\r\nab",
            b"0\r\n\r\n",
            b"5;" + b"x" * 9000 + b"\r\nabcde\r\n",
        ]
    )
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * draw.choice([1, 3, 14_000])
    return draw.choice([plain, chunked])


ATTACKS: tuple[Attack, ...] = (junk, odd_line, odd_path, odd_headers, odd_body, odd_question, odd_question, odd_size)


def slowly(wire: socket.socket, said: bytes, draw: Draw) -> None:
    """A few bytes at a time, and then no more."""
    for at in range(0, min(len(said), 200), 40):
        wire.sendall(said[at : at + 40])
        time.sleep(draw.uniform(0, 0.05))


def attack(url: httpx.URL, seed: int) -> int:
    """One hostile request, made by its number; the status of the answer, 0 if there is none."""
    draw = Draw(seed)
    said = draw.choice(ATTACKS)(draw)
    manner = draw.choice(["plain", "plain", "plain", "slow", "half", "cut", "reset", "twice"])
    with suppress(OSError), socket.create_connection((url.host, url.port or 80), timeout=patience(20)) as wire:
        if manner == "slow":
            slowly(wire, said, draw)
        else:
            with suppress(OSError):  # the server may have answered, and closed, before all was sent
                wire.sendall(said[: draw.randint(0, len(said))] if manner in ("cut", "reset") else said)
                if manner == "twice":
                    wire.sendall(said)
        if manner in ("half", "cut", "slow"):
            wire.shutdown(socket.SHUT_WR)
        if manner == "reset":
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return 0
        wire.settimeout(0.3 if manner == "cut" else 5)
        answer = wire.recv(4096)
        if answer.startswith(b"HTTP/1.1 ") and answer[9:12].isdigit():
            return int(answer[9:12])
    return 0


@contextmanager
def attacked() -> Iterator[str]:
    limits = Limits(body_seconds=1.0, requests=AT_ONCE, receiving=2 * AT_ONCE)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(server, "HEAD_SECONDS", 1.0)
        with serving(create_app(service(), limits=limits)) as url:
            yield url


QUESTION = {"questions": [{"subject": "person 03", "relation": "bornIn", "object": "Oslo"}]}


@pytest.mark.slow
def test_two_thousand_hostile_requests_leave_it_serving() -> None:
    service().discover(["bornIn"], min_probability=0.0)
    with attacked() as url, client(url) as asking:
        before = [asking.post("/v1/when", json=QUESTION).json(), asking.get("/v1/facts").json()]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            statuses = list(pool.map(lambda seed: attack(httpx.URL(url), seed), range(REQUESTS)))
        answered = [status for status in statuses if status]
        assert len(answered) > REQUESTS / 3, "most are to reach it"
        assert not [status for status in answered if status >= 500 and status != 503]
        assert {200, 400, 404, 405, 413, 422} <= set(answered)
        until = time.monotonic() + patience(30)
        while asking.get("/v1/kb").status_code != 200:  # the last of them may still be at work
            assert time.monotonic() < until
            time.sleep(0.1)
        assert [asking.post("/v1/when", json=QUESTION).json(), asking.get("/v1/facts").json()] == before
        assert len([thread for thread in threading.enumerate() if "AnyIO" in thread.name]) <= 2 * AT_ONCE


@pytest.mark.slow
def test_who_holds_connections_open_keeps_nobody_else_out() -> None:
    """Forty that never finish a head, forty that never finish a body, forty that read nothing."""
    with attacked() as url, client(url) as asking:
        place, wires = httpx.URL(url), []
        head = b"POST /v1/when HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
        for said in (
            b"GET /v1/kb HTTP/1.1\r\nHo",
            head + b"\r\n{",
            b"GET /v1/facts?limit=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ):
            for _ in range(40):
                wires.append(socket.create_connection((place.host, place.port or 80), timeout=5))
                wires[-1].sendall(said)
        until = time.monotonic() + patience(30)
        while asking.post("/v1/when", json=QUESTION).status_code != 200:
            assert time.monotonic() < until
            time.sleep(0.05)
        for wire in wires:
            wire.close()
        assert asking.get("/healthz").json()["status"] == "ok"
