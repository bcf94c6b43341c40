"""The four benchmarks of the paper: what they hold, where they come from, and loading them checked.

benchmarks.toml lists them. A folder of facts counts as right by its `digest`, which does not depend on the order of the
lines: the public copies of one benchmark have the same facts in different orders.
"""

import hashlib
import os
import re
import shutil
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from urllib import request
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from timeplex.errors import DamagedError, DownloadError, InputError, UnknownNameError
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import SPLITS, TemporalKB
from timeplex.kb.readers import read_files, read_folder
from timeplex.kb.split import split_randomly
from timeplex.text import did_you_mean
from timeplex.typing import Progress


@dataclass(frozen=True)
class Source:
    """Where the files are: `<base>/<file>` for each split.

    With `entity_ids` and `relation_ids` the facts are numbers, which these files translate into names.
    """

    base: str
    files: Mapping[str, str]
    entity_ids: str | None = None
    relation_ids: str | None = None

    @property
    def all_files(self) -> list[str]:
        """Every file that has to be fetched."""
        return [*self.files.values(), *(file for file in (self.entity_ids, self.relation_ids) if file)]


@dataclass(frozen=True)
class Benchmark:
    """A published data set: its numbers, the digest of each split, and its source."""

    name: str
    title: str
    description: str
    citation: str
    terms: str
    granularity: Granularity
    facts: Mapping[str, int]
    entities: int
    relations: int
    digests: Mapping[str, str]
    source: Source


BYTES_A_FACT = 1_000
"""No file of a benchmark is larger than this for each of its facts; they take about a tenth of it."""


_TABLES = tomllib.loads(Path(__file__).with_name("benchmarks.toml").read_text("utf-8"))
BENCHMARKS = {name: TypeAdapter(Benchmark).validate_python({"name": name, **table}) for name, table in _TABLES.items()}
"""The benchmarks by name."""


def load(name: str, data_dir: Path | None = None, progress: Progress | None = None) -> TemporalKB:
    """The KB of a benchmark, downloaded if it is not on this machine; see `locate`."""
    benchmark = find(name)
    folder = locate(name, data_dir, progress=progress)
    kb = read_folder(folder, granularity=benchmark.granularity, name=name)
    counts = [(f"{split} facts", len(kb.splits[split]), number) for split, number in benchmark.facts.items()]
    counts += [("entities", len(kb.entities), benchmark.entities)]
    counts += [("relations", len(kb.relations), benchmark.relations)]
    for what, found, right in counts:
        if found != right:
            raise DamagedError(
                f"{folder} has {found:,} {what}, but {benchmark.title} has {right:,}.",
                "The files are right, so their reader is not: please report it.",
            )
    return kb


def find(name: str) -> Benchmark:
    """The benchmark of that name; an unknown name is an error that lists the known ones."""
    if name not in BENCHMARKS:
        hint = f"{did_you_mean(name.lower(), BENCHMARKS)} Known are {', '.join(BENCHMARKS)}.".lstrip()
        raise UnknownNameError(f"There is no benchmark {name!r}.", hint)
    return BENCHMARKS[name]


def locate(name: str, data_dir: Path | None = None, download: bool = True, progress: Progress | None = None) -> Path:
    """The folder of a benchmark with train.txt, valid.txt and test.txt, each checked by its digest.

    It is looked for as `<name>` in `data_dir`, in `$TIMEPLEX_DATA` and in the user's cache, and downloaded
    into the cache if it is in none of them (unless `download` is false).
    """
    benchmark = find(name)
    folder = folder_of(name, data_dir)
    if folder is not None:
        wrong = _wrong_split(benchmark, folder)
        if wrong is None:
            return folder
        raise DamagedError(
            f"{folder / file_of(wrong)} does not hold the {wrong} facts of {benchmark.title}.",
            "Delete it, or replace it with the right file, and run the command again.",
        )
    by_hand = (
        f"put train.txt, valid.txt and test.txt into {cache_folder() / name}, "
        f"or set TIMEPLEX_DATA to a folder whose subfolder {name} has them."
    )
    if not download:
        raise InputError(f"{benchmark.title} is not on this machine.", f"Allow its download, or {by_hand}")
    try:
        return _download(benchmark, cache_folder() / name, progress)
    except DownloadError as error:
        raise DownloadError(error.problem, f"{error.hint} You can also {by_hand}".strip()) from error


def folder_of(name: str, data_dir: Path | None = None) -> Path | None:
    """The first folder that has the three files of a benchmark, not yet checked; None if there is none."""
    given = (data_dir, os.environ.get("TIMEPLEX_DATA") or None, cache_folder())
    folders = [Path(data) / name for data in given if data is not None]
    return next((of for of in folders if all((of / file_of(split)).is_file() for split in SPLITS)), None)


def file_of(split: str) -> str:
    """The file that holds a split."""
    return f"{split}.txt"


def cache_folder() -> Path:
    """Where downloads are kept: `$XDG_CACHE_HOME` or `~/.cache`, and in it `timeplex/data`."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    if given and Path(given).is_absolute():  # a relative path is to be ignored, says the XDG specification
        return Path(given) / "timeplex" / "data"
    try:
        return Path.home() / ".cache" / "timeplex" / "data"
    except RuntimeError as error:
        raise InputError("The home folder is not known.", "Set XDG_CACHE_HOME to a folder for downloads.") from error


def digest(path: Path) -> str:
    """SHA-256 of the facts of a file in sorted order, each followed by a line feed.

    Lines are compared as bytes; what ends them (LF or CR LF) and blank lines do not count.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.", "Check its permissions.") from error
    lines = data.split(b"\n")
    if b"\r" in data:
        lines = [line.removesuffix(b"\r") for line in lines]
    facts = [line for line in lines if line]
    facts.sort()
    facts.append(b"")  # so that the last fact, too, is followed by a line feed
    return hashlib.sha256(b"\n".join(facts)).hexdigest()


def _wrong_split(benchmark: Benchmark, folder: Path) -> str | None:
    """The first split whose file does not have the right digest, if there is one."""
    wrong = (split for split in SPLITS if digest(folder / file_of(split)) != benchmark.digests[split])
    return next(wrong, None)


def _download(benchmark: Benchmark, folder: Path, progress: Progress | None) -> Path:
    """Fetch a benchmark into `folder`. Nothing gets there before all of it is verified.

    The work is done in a folder beside it, which stays when a transfer is cut off: the next call goes on.
    """
    work = folder.with_name(f".{folder.name}.download")
    source = benchmark.source
    for file in source.all_files:
        if not (work / file).is_file():
            most = BYTES_A_FACT * max(1_000, sum(benchmark.facts.values()))
            fetch(f"{source.base}/{file}", work / file, progress=progress, most=most)
    try:
        with _writing(folder):
            ready = _prepare(source, work)
            wrong = _wrong_split(benchmark, ready)
            if wrong is not None:
                address = f"{source.base}/{source.files[wrong]}"
                raise DownloadError(f"{address} does not hold the {wrong} facts of {benchmark.title}.")
            _put(ready, folder)
    finally:
        # Also after a failure: the next call is to fetch anew, not to find the same wrong files again.
        shutil.rmtree(work, ignore_errors=True)
    return folder


def _prepare(source: Source, work: Path) -> Path:
    """A folder with train.txt, valid.txt and test.txt, made from the fetched files."""
    ready = work / "ready"
    ready.mkdir(exist_ok=True)
    entities = _names(work / source.entity_ids) if source.entity_ids else None
    relations = _names(work / source.relation_ids) if source.relation_ids else None
    for split, file in source.files.items():
        if entities is None or relations is None:
            (work / file).replace(ready / file_of(split))
            continue
        with (ready / file_of(split)).open("wb") as target:
            target.write(_decode(work / file, entities, relations))
            target.flush()
            os.fsync(target.fileno())
    return ready


def _put(ready: Path, folder: Path) -> None:
    """Give the finished folder its final name, all at once where there is no such folder yet."""
    try:
        ready.rename(folder)
    except OSError:
        # The folder is there, but not complete. Other files in it, such as labels, stay.
        for split in SPLITS:
            (ready / file_of(split)).replace(folder / file_of(split))


def _names(path: Path) -> dict[bytes, bytes]:
    """Number → name, from lines `name, number` or `number, name`; further columns are passed over.

    The enclosing `<` and `>` of YAGO's names are dropped.
    """
    rows = [line.rstrip(b"\r").split(b"\t") for line in path.read_bytes().split(b"\n") if b"\t" in line]
    # The column of numbers decides for the file as a whole: a single name may well be a number, too.
    at = next((at for at in (1, 0) if all(row[at].isdigit() for row in rows)), None)
    if at is None:
        raise DownloadError(f"{path.name} of the download is not a list of names and numbers.")
    names = (row[1 - at] for row in rows)
    bare = (name[1:-1] if name.startswith(b"<") and name.endswith(b">") else name for name in names)
    return dict(zip((row[at] for row in rows), bare, strict=True))


def _decode(path: Path, entities: dict[bytes, bytes], relations: dict[bytes, bytes]) -> bytes:
    """The facts of a file with names in place of numbers; dates stay as they are."""
    facts = []
    for line in path.read_bytes().split(b"\n"):
        columns = line.rstrip(b"\r").split(b"\t")
        if columns == [b""]:
            continue
        try:
            s, r, o, *dates = columns
            facts.append(b"\t".join((entities[s], relations[r], entities[o], *dates)) + b"\n")
        except (ValueError, KeyError) as error:
            raise DownloadError(f"{path.name} of the download has a line that is not a known fact.") from error
    return b"".join(facts)


# Fetching one file over HTTP ------------------------------------------------------------------------------------------


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

    The bytes are collected in `<target>.part`, where a transfer that was cut off goes on; only a whole file ever gets
    the final name.

    `timeout` is the number of seconds for which the server may be silent, `longest` how many it may take in all, and
    `most` is the number of bytes that it may send.
    """
    try:
        address = urlsplit(url)
        usable = address.scheme in ("http", "https") and bool(address.hostname)
    except ValueError:
        usable = False
    if not usable:
        raise DownloadError(f"{url!r} is not an address on the web.", "Give one that begins with https:// or http://.")
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


def _opener() -> request.OpenerDirector:
    """Like urllib's own, but without its handlers for files and FTP, so that no redirect leads there."""
    opener = request.OpenerDirector()
    passing = (request.ProxyHandler, request.HTTPHandler, request.HTTPSHandler, request.HTTPRedirectHandler)
    refusing = (request.UnknownHandler, request.HTTPDefaultErrorHandler, request.HTTPErrorProcessor)
    for handler in (*passing, *refusing):
        opener.add_handler(handler())
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


def load_sample() -> TemporalKB:
    """The sample that comes with the package (see sample/SOURCES.md), split at random with a fixed seed (8 : 1 : 1)."""
    files = sorted(Path(__file__).with_name("sample").glob("*.tsv"))
    kb = read_files(files, granularity=Granularity.YEAR, name="sample")
    return split_randomly(kb, valid=0.1, test=0.1, seed=0)
