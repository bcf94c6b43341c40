"""What stands between the network and the explorer: who may ask, how much, how many at once, and for how long.

A request is looked at in this order, and what is refused goes no further:

    head      has so many bytes at most                                                                         431
    Host      must be one of ours, so that no page elsewhere reaches us by a name of its own (DNS rebinding)    400
    token     if there is one: `Authorization: Bearer`, a cookie, or once `?token=`; all but /healthz           401
    origin    what may change something comes from our own pages or from no page at all                         403
    body      counted while it streams, and not slower than a limit                                        413, 408
    number    so many requests at once                                                                          503
    time      so many seconds; who does not come to an end is told so                                           503

Every answer carries a policy under which a browser loads and runs nothing but what we serve.
"""

import asyncio
import hashlib
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from contextlib import suppress
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from timeplex.files import to_json
from timeplex.serve.turns import time_limit

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BODY = 64 * 1024
LOOPBACK = ("127.0.0.1", "localhost", "::1")
EVERY_ADDRESS = ("0.0.0.0", "::")  # noqa: S104 - compared with, not bound to
OPEN_PATH = "/healthz"
COOKIE = "timeplex"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")

HEADERS = {
    "content-security-policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with none, a browser would not tell us that a form is our own
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
DEFAULTS = {"cache-control": "no-store"}
"""What an answer carries unless it says otherwise."""


@dataclass(frozen=True)
class Limits:
    """How much is taken from all together, and from one request.

    body, head    bytes of a request
    requests      answered at once; more are told to come again
    receiving     whose body is still on its way
    seconds       for an answer
    body_seconds  for a body to arrive
    """

    body: int = MOST_BODY
    head: int = 16 * 1024
    requests: int = 32
    receiving: int = 128
    seconds: float = 30.0
    body_seconds: float = 10.0


@dataclass(frozen=True)
class Refusal:
    """Why a request goes no further."""

    status: int
    error: str
    hint: str = ""
    headers: tuple[tuple[str, str], ...] = ()


class Guard:
    """ASGI middleware that keeps all of the above.

    `hosts` are names and addresses that we are asked by beside those of this machine alone; 0.0.0.0 or :: stands for
    any address that is no name (a page elsewhere cannot be known by one).
    """

    def __init__(
        self, app: App, *, token: str | None = None, hosts: Iterable[str] = (), limits: Limits | None = None
    ) -> None:
        self.app, self.limits = app, limits or Limits()
        self.hosts = {host.lower().strip("[]") for host in (*LOOPBACK, *hosts)}
        self._token = None if token is None else _digest(token)
        self._cookie = "" if token is None else hashlib.sha256(b"timeplex cookie " + token.encode()).hexdigest()
        self._running = self._receiving = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":  # there is none
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._http(scope, receive, Reply(send))

    async def _http(self, scope: Scope, receive: Receive, reply: "Reply") -> None:
        headers = _Headers(scope)
        refusal = self._refused_head(scope, headers) or self._refused_host(headers)
        refusal = refusal or self._refused_token(scope, headers) or _refused_origin(scope, headers)
        if refusal is None and self._receiving >= self.limits.receiving:
            refusal = BUSY
        if refusal is not None:
            await reply.refuse(refusal)
            return
        self._receiving += 1
        try:
            body = await self._body(headers, receive)
        finally:
            self._receiving -= 1
        if isinstance(body, Refusal):
            await reply.refuse(body)
        elif body is not None:
            await self._answer(scope, _replayed(body, receive), reply)

    def _refused_head(self, scope: Scope, headers: "_Headers") -> Refusal | None:
        size = headers.size + len(scope.get("raw_path") or b"") + 1 + len(scope.get("query_string", b""))
        if size <= self.limits.head:
            return None
        return Refusal(431, f"The head of a request has at most {self.limits.head:,} bytes.", "Send fewer headers.")

    # Who may ask -------------------------------------------------------------------------------------------------

    def _refused_host(self, headers: "_Headers") -> Refusal | None:
        given = headers.all("host")
        host = _host_of(given[0]) if len(given) == 1 else None
        if host is not None and (host in self.hosts or (self.hosts & {*EVERY_ADDRESS} and _is_address(host))):
            return None
        hint = "Use the address that timeplex serve printed, or add the name with --allow-host."
        return Refusal(400, "This server is not known by that name.", hint)

    def _refused_token(self, scope: Scope, headers: "_Headers") -> Refusal | None:
        if self._token is None or scope["path"] == OPEN_PATH or self._knows(headers):
            return None
        query = parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)
        given = [value for name, value in query if name == "token"]
        if scope["method"] in SAFE_METHODS and len(given) == 1 and hmac.compare_digest(_digest(given[0]), self._token):
            return self._let_in(scope, [pair for pair in query if pair[0] != "token"])
        hint = "Send it as Authorization: Bearer TOKEN, or open the page once with ?token=TOKEN."
        return Refusal(401, "This server asks for a token.", hint, (("www-authenticate", "Bearer"),))

    def _knows(self, headers: "_Headers") -> bool:
        """Whether a request has the token, or the cookie that stands for it; compared in constant time."""
        token = self._token or b""
        for given in headers.all("authorization"):
            scheme, _, value = given.partition(" ")
            if scheme.lower() == "bearer" and hmac.compare_digest(_digest(value.strip()), token):
                return True
        for given in headers.all("cookie"):
            with suppress(CookieError):
                morsel = SimpleCookie(given).get(COOKIE)
                if morsel is not None and hmac.compare_digest(_digest(morsel.value), _digest(self._cookie)):
                    return True
        return False

    def _let_in(self, scope: Scope, query: list[tuple[str, str]]) -> Refusal:
        """A cookie, and the same page without the token in its address."""
        # One slash: with two, the rest would be taken for another host.
        there = "/" + quote(scope["path"].lstrip("/\\"), safe="/:@!$&'()*+,;=~-._")
        location = f"{there}?{urlencode(query)}" if query else there
        cookie = f"{COOKIE}={self._cookie}; Path=/; HttpOnly; SameSite=Strict"
        return Refusal(303, "", "", (("location", location), ("set-cookie", cookie)))

    # How much, how many, how long --------------------------------------------------------------------------------

    async def _body(self, headers: "_Headers", receive: Receive) -> bytes | Refusal | None:
        """The body of a request; None if who sent it has left."""
        most = self.limits.body
        too_large = Refusal(413, f"A request has at most {most:,} bytes.", "Ask for less in one request.")
        stated = headers.all("content-length")
        if stated and (not stated[0].isdecimal() or int(stated[0][:20]) > most):
            return too_large
        body = bytearray()
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        return None
                    body += message.get("body", b"")
                    if len(body) > most:
                        return too_large
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            return Refusal(408, f"The body took longer than {self.limits.body_seconds:g} seconds.", "Send it at once.")

    async def _answer(self, scope: Scope, receive: Receive, reply: "Reply") -> None:
        """What the application says, if it says it in time."""
        if scope["path"] == OPEN_PATH:
            await self.app(scope, receive, reply)
            return
        if self._running >= self.limits.requests:
            await reply.refuse(BUSY)
            return
        self._running += 1
        with time_limit(self.limits.seconds):
            task = asyncio.ensure_future(self.app(scope, receive, reply))
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        try:
            await asyncio.wait({task}, timeout=self.limits.seconds)
        finally:
            if reply.started and not task.done():  # whoever should read the answer does not
                task.cancel()  # a thread at work cannot be stopped: it keeps its place until it ends
        if task.done() and not task.cancelled() and task.exception() is None:
            return
        if not reply.started:
            failed = task.done() and not task.cancelled()
            await reply.refuse(_FAILED if failed else _TOO_LONG)
        reply.closed = True

    def _ended(self, task: "asyncio.Task[None]") -> None:
        self._running -= 1
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # it was told already


BUSY = Refusal(503, "Too many ask at the same time.", "Ask again in a second.", (("retry-after", "1"),))
_TOO_LONG = Refusal(
    503, "The answer takes longer than a request may.", "Ask for less in one request.", (("retry-after", "10"),)
)
_FAILED = Refusal(500, "timeplex failed unexpectedly.", "This is a fault of ours: please report it.")


def _refused_origin(scope: Scope, headers: "_Headers") -> Refusal | None:
    """Refuse what a page elsewhere lets a browser send."""
    if scope["method"] in SAFE_METHODS:
        return None
    host = headers.all("host")[0].lower()
    ours = {f"http://{host}", f"https://{host}"}
    foreign = any(origin.lower() not in ours for origin in headers.all("origin"))
    foreign |= any(site not in ("same-origin", "none") for site in headers.all("sec-fetch-site"))
    return Refusal(403, "This comes from a page of another site.", "Use our own pages.") if foreign else None


class _Headers:
    """The headers of a request."""

    def __init__(self, scope: Scope) -> None:
        self._pairs = [(name.lower(), value) for name, value in scope["headers"]]

    @property
    def size(self) -> int:
        """Bytes of all names and values."""
        return sum(len(name) + len(value) for name, value in self._pairs)

    def all(self, name: str) -> list[str]:
        """All values of a header."""
        wanted = name.encode()
        return [value.decode("latin-1") for each, value in self._pairs if each == wanted]


class Reply:
    """What is sent, with our headers; nothing more once it is closed."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = self.closed = False

    async def __call__(self, message: Message) -> None:
        if self.closed:
            return
        if message["type"] == "http.response.start":
            self.started = True
            message["headers"] = _with_ours(list(message.get("headers", ())))
        await self._send(message)

    async def refuse(self, why: Refusal) -> None:
        """Say why a request goes no further."""
        body = to_json({"error": why.error, "hint": why.hint}).encode() if why.error else b""
        headers = {"content-type": "application/json", "content-length": str(len(body)), **dict(why.headers)}
        if why.status in (408, 413):
            headers["connection"] = "close"
        pairs = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        await self({"type": "http.response.start", "status": why.status, "headers": pairs})
        await self({"type": "http.response.body", "body": body})


def _with_ours(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    names = {name.lower() for name, _ in headers}
    kept = [(name, value) for name, value in headers if name.lower().decode("latin-1") not in HEADERS]
    more: Mapping[str, str] = {name: value for name, value in DEFAULTS.items() if name.encode() not in names}
    return [*kept, *((name.encode(), value.encode()) for name, value in {**HEADERS, **more}.items())]


def _replayed(body: bytes, receive: Receive) -> Receive:
    """The body at once, then what comes after it: that the other side has left."""
    told = False

    async def again() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


def _host_of(header: str) -> str | None:
    """The name or address in a Host header, without its port; None if it is none."""
    header = header.strip().lower()
    if header.startswith("["):
        host, bracket, port = header[1:].partition("]")
        port = port.removeprefix(":") if bracket else "?"
    else:
        host, _, port = header.partition(":")
    return host if host and (not port or port.isdecimal()) else None


def _is_address(host: str) -> bool:
    with suppress(ValueError):
        ipaddress.ip_address(host)
        return True
    return False
