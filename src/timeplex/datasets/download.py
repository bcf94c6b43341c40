"""Fetching one file over HTTP: a transfer that was cut off goes on where it stopped.

The bytes are collected in `<target>.part`; only a whole file ever gets the final name.
"""

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from timeplex.errors import DownloadError
from timeplex.typing import Progress

CHUNK = 1 << 16

Answer = HTTPResponse | HTTPError
"""An `HTTPError` only for status 416: the range that was asked for does not exist."""


MOST = 1_000_000_000
"""Bytes that a download may have unless told otherwise."""

LONGEST = 3600.0
"""Seconds that one call may take; the next goes on."""


def fetch(
    url: str,
    target: Path,
    *,
    progress: Progress | None = None,
    timeout: float = 30,
    most: int = MOST,
    longest: float = LONGEST,
) -> Path:
    """Download a file and return its path; an existing target is replaced.

    `timeout` is the number of seconds for which the server may be silent, `longest` how many it may take in all, and
    `most` is the number of bytes that it may send.
    """
    _check_address(url)
    part = target.with_name(target.name + ".part")
    with _writing(part):
        target.parent.mkdir(parents=True, exist_ok=True)
        have = part.stat().st_size if part.exists() else 0
    answer = _ask(url, have, timeout)
    if have and answer.status != 200 and not _fits(answer, have):
        answer.close()
        have, answer = 0, _ask(url, 0, timeout)
    with answer:
        if answer.status != 416:  # with 416 the part is whole already
            bounds = most, time.monotonic() + longest
            _receive(url, answer, part, have if answer.status == 206 else 0, progress, bounds)
    with _writing(target):
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(target)
    return target


def _check_address(url: str) -> None:
    try:
        address = urlsplit(url)
        usable = address.scheme in ("http", "https") and bool(address.hostname)
    except ValueError:
        usable = False
    if not usable:
        hint = "Give one that begins with https:// or http://."
        raise DownloadError(f"{url!r} is not an address on the web.", hint)


def _opener() -> request.OpenerDirector:
    """Like urllib's own, but without its handlers for files and FTP, so that no redirect leads there."""
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler(),
        request.UnknownHandler(),
        request.HTTPHandler(),
        request.HTTPSHandler(),
        request.HTTPDefaultErrorHandler(),
        request.HTTPRedirectHandler(),
        request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def _ask(url: str, start: int, timeout: float) -> Answer:
    """Ask for the file from byte `start` on. Everything but a usable answer is a `DownloadError`."""
    headers = {"User-Agent": "timeplex"} | ({"Range": f"bytes={start}-"} if start else {})
    try:
        wanted = request.Request(url, headers=headers)  # noqa: S310 - the scheme was checked
        answer: HTTPResponse = _opener().open(wanted, timeout=timeout)
    except HTTPError as error:
        if error.code == 416 and start:
            return error
        error.close()
        hint = "Try again later." if error.code == 429 or error.code >= 500 else "It may have been moved."
        raise _failed(url, f"the server answers {error.code} {error.reason}", hint) from error
    except (OSError, HTTPException, ValueError) as error:
        hint = "Check the network and run the command again."
        raise _failed(url, _in_words(error, timeout), hint) from error
    if answer.status not in (200, 206):
        answer.close()
        raise _failed(url, f"the server answers {answer.status}", "Try again later.")
    return answer


def _failed(url: str, why: str, hint: str) -> DownloadError:
    return DownloadError(f"{url} cannot be fetched: {why}.", hint)


def _in_words(error: Exception, timeout: float) -> str:
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return f"the server was silent for {timeout:g} seconds"
    if isinstance(cause, ConnectionRefusedError):
        return "the connection was refused"
    text = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
    return text.rstrip(".") or type(cause).__name__


def _content_range(answer: Answer) -> tuple[int | None, int | None]:
    """(first byte, size of the whole file) by the header Content-Range: `bytes 5-9/10` or `bytes */10`."""
    found = re.fullmatch(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)", answer.headers.get("Content-Range", "").strip())
    if found is None:
        return None, None
    first, size = found.groups()
    return (int(first) if first else None), (int(size) if size != "*" else None)


def _fits(answer: Answer, have: int) -> bool:
    """Whether the answer goes on right after the bytes we have, or says that they are all."""
    first, size = _content_range(answer)
    return size == have if answer.status == 416 else first == have


def _receive(
    url: str, answer: Answer, part: Path, start: int, progress: Progress | None, bounds: tuple[int, float]
) -> None:
    """Write the body into the part, from byte `start` on, and check that it is all there, and within its bounds."""
    most, latest = bounds
    length = answer.headers.get("Content-Length", "").strip()
    total = start + int(length) if length.isdecimal() else None
    if answer.status == 206:
        total = _content_range(answer)[1] or total
    if total is not None and total > most:
        raise _too_large(url, part, most)
    done = start
    with _writing(part), part.open("ab" if start else "wb") as file:
        for chunk in _chunks(url, answer):
            done += len(chunk)
            if done > most:
                raise _too_large(url, part, most)
            file.write(chunk)
            if time.monotonic() > latest:
                raise _cut_off(url, "it takes too long")
            if progress is not None:
                progress(done, total)
    if total is not None and done != total:
        raise _cut_off(url, f"{done:,} of {total:,} bytes came")


def _too_large(url: str, part: Path, most: int) -> DownloadError:
    part.unlink(missing_ok=True)
    return _failed(url, f"it is larger than {most / 1e6:,.0f} MB, and is not what is expected there", "")


def _chunks(url: str, answer: Answer) -> Iterator[bytes]:
    try:
        while chunk := answer.read(CHUNK):
            yield chunk
    except (OSError, HTTPException) as error:
        raise _cut_off(url, str(error) or type(error).__name__) from error


def _cut_off(url: str, how: str) -> DownloadError:
    hint = "What came is kept: run the command again to go on."
    return DownloadError(f"The download of {url} was cut off: {how}.", hint)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Turns trouble with the disk into a sentence."""
    try:
        yield
    except OSError as error:
        hint = "Check the folder's permissions and the free space."
        raise DownloadError(f"{path} cannot be written: {error.strerror or error}.", hint) from error
