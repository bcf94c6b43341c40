"""A small KB with names of anyone's making, learned once a session, and the explorer over it, as it really serves."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import httpx
import polars as pl
import uvicorn

import timeplex
from timeplex.answers.learned import Learned
from timeplex.kb.facts import TemporalKB
from timeplex.kb.names import Names
from timeplex.serve.server import configured
from timeplex.serve.service import Service

PEOPLE = 90
CITIES = ("Bern", "Cork", "Lima", "Oslo")
ODD = (
    "<img src=x onerror=alert(1)>",
    '=HYPERLINK("http://x")',
    "\u202eright to left\u2066",
    "a/b/../c?d=e&f#g",
    "line\nbreak",
    "日本 😀",
    "' OR 1=1 --",
)
"""Entities of this name live in Oslo."""
LABELS = {"Q1": "The First Office", "Q2": "The Second Office"}


@lru_cache
def kb() -> TemporalKB:
    """People who are born, marry, work and hold an office one after the other; one is born after his own work."""
    rows: list[tuple[str, str, str, str, str]] = []
    for number in range(PEOPLE):
        person, city = f"person {number:02}", CITIES[number % len(CITIES)]
        born = 1900 + number % 50
        rows.append((person, "bornIn", city, str(born), str(born)))
        rows.append((person, "livesIn", city, str(born + 20), str(born + 50)))
        rows.append((person, "worksIn", city, str(born + 25), str(born + 40 + number % 5)))
        rows.append(
            (person, "holds", f"Q{1 + number % 2}", str(1900 + 2 * (number // 2)), str(1902 + 2 * (number // 2)))
        )
    rows += [(name, "livesIn", "Oslo", "1980", "") for name in ODD]
    rows.append(("person 00", "bornIn", "Bern", "1990", "1990"))  # after all that he did
    frame = pl.DataFrame(rows, schema=["subject", "relation", "object", "begin", "end"], orient="row")
    made = timeplex.split_randomly(timeplex.read(frame), valid=0.1, test=0.1, seed=0)
    return replace(made, entities=Names(made.entities.names, LABELS), name="people")


NAMES = tuple(kb().entities)


@lru_cache
def kept() -> Path:
    """A folder that has what was learned of it."""
    folder = Path(mkdtemp(prefix="timeplex-serve-")) / "people.kb"
    kb().save(folder)
    timeplex.learn(kb(), folder=folder).learn()
    return folder


@lru_cache
def asked() -> Learned:
    """It, ready to be asked."""
    return timeplex.learn(kb(), folder=kept()).learn()


@lru_cache
def service() -> Service:
    """One service for all tests that do not stop it."""
    made = Service(asked())
    made.findings_found()
    return made


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """The address of an application that really serves, on a free port of this machine alone."""
    with socket.create_server(("127.0.0.1", 0)) as made:
        server = uvicorn.Server(configured(app))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[made])), daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{made.getsockname()[1]}"
        try:
            while not server.started:
                assert thread.is_alive(), "it did not start"
                thread.join(0.01)
            yield url
        finally:
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive(), "it did not stop"


def client(url: str, **options: Any) -> httpx.Client:
    """Somebody who asks, whatever proxies the machine knows."""
    return httpx.Client(base_url=url, trust_env=False, timeout=60, **options)
