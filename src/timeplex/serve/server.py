"""The process that serves: an address that may be used, connections that may not be held open, an orderly end."""

import asyncio
import ipaddress
import secrets
import socket
import sys
from collections.abc import Callable

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from timeplex.errors import InputError
from timeplex.serve.safety import BUSY, EVERY_ADDRESS, App, Receive, Reply, Scope, Send

HEAD_SECONDS = 10.0
"""A request's head must be whole by then."""
IDLE_SECONDS = 5
"""A connection without a request is closed then."""
MOST_CONNECTIONS = 512
MOST_HEAD = 64 * 1024
"""So many bytes of a request's head are kept until it is whole."""
SWITCH_SECONDS = 0.001
"""A thread that works lets others, such as the one that takes requests, have their turn so soon; else after 0.005."""
LAST_SECONDS = 40
"""What runs when the server is stopped may take so long."""
LEAST_TOKEN = 16
"""Letters of a token; a shorter one can be guessed."""


def check_token(token: str | None) -> None:
    """Refuse a token that is easily guessed, or that no header can hold."""
    if token is None:
        return
    if not (token.isascii() and token.isprintable() and " " not in token):
        raise InputError("The token has characters that a header cannot hold.", "Use letters and digits.")
    if len(token) < LEAST_TOKEN:
        raise InputError(
            f"The token has {len(token)} characters, at least {LEAST_TOKEN} are needed.",
            f"Here is one: {secrets.token_urlsafe(24)}",
        )


def opened(host: str, port: int, token: str | None) -> socket.socket:
    """A socket at an address; any but this machine's own needs a token. Port 0 is any that is free."""
    check_token(token)
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    except (OSError, UnicodeError, OverflowError) as error:
        raise InputError(f"{host!r} is no address of this machine.", "Give one such as 127.0.0.1.") from error
    if token is None and not ipaddress.ip_address(str(address[0]).partition("%")[0]).is_loopback:
        raise InputError(
            f"{host} can be reached from other machines, and there is no token.",
            "Give one with --token or TIMEPLEX_TOKEN, or stay with --host 127.0.0.1.",
        )
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(address)
        made.listen(128)  # so that two servers cannot both have it
    except OSError as error:
        made.close()
        raise InputError(
            f"Port {port} of {host} cannot be used: {(error.strerror or str(error)).lower()}.",
            "Choose another one with --port; 0 takes any that is free.",
        ) from error
    return made


def url(made: socket.socket, host: str) -> str:
    """Where a browser finds it."""
    name = "127.0.0.1" if host in EVERY_ADDRESS else host
    return f"http://{f'[{name}]' if ':' in name else name}:{made.getsockname()[1]}/"


def configured(app: App) -> uvicorn.Config:
    """How uvicorn serves an application."""
    return uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        loop="asyncio",
        lifespan="on",
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=LAST_SECONDS,
        h11_max_incomplete_event_size=MOST_HEAD,
    )


def run(app: App, made: socket.socket, *, on_start: Callable[[], None] | None = None) -> None:
    """Serve until Ctrl-C or SIGTERM, then finish what is running. A second Ctrl-C does not wait for it."""
    sys.setswitchinterval(SWITCH_SECONDS)
    server = _Server(configured(app), on_start)
    try:
        server.run(sockets=[made])
    except (KeyboardInterrupt, SystemExit):  # the signal, once more, after all has ended well
        if not server.started:
            raise


class _Server(uvicorn.Server):
    """Tells when it serves."""

    def __init__(self, config: uvicorn.Config, on_start: Callable[[], None] | None) -> None:
        super().__init__(config)
        self._on_start = on_start

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._on_start is not None and self.started:
            self._on_start()


class Connection(H11Protocol):
    """A connection that is closed if a request's head does not come, and refused if there are too many."""

    _patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self.app = _overrun
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_watching()
        super().connection_lost(exc)

    def _waits_for_head(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _watch(self) -> None:
        if not self._waits_for_head():
            self._stop_watching()
        elif self._patience is None:
            self._patience = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _stop_watching(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._patience = None
        if self._waits_for_head() and not self.transport.is_closing():
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Say that the request cannot be read, if an answer may still begin."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:  # an answer has begun: nothing can be said any more
            self.transport.close()


async def _overrun(scope: Scope, receive: Receive, send: Send) -> None:
    """What one connection too many is told."""
    await Reply(send).refuse(BUSY)
