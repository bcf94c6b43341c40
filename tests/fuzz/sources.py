"""Mutated source files: each is read into a KB that keeps the law, or refused in a sentence.

python -m tests.fuzz.sources [--cases 50000] [--seed 0]    (from the root of the repository)

Files are damaged as bytes, and by their structure, so that the damage gets past checksums and packing: Parquet is
written again with other types and other options, and integers of its footer and page headers are changed; the XML in
spreadsheets is damaged and packed again; JSON is damaged as values; packed text is damaged before it is packed.
"""

import argparse
import gzip
import io
import json
import os
import struct
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
from tests.memory import peak_bytes
from tests.strategies import DAMAGES, apply, good_files

from timeplex.errors import TimeplexError
from timeplex.kb.readers import READERS, read_files

SUFFIXES = [*READERS, *(f"{suffix}.gz" for suffix in READERS)]
SECONDS = 20.0
"""One file of a few kilobytes may take so long, on a busy machine."""
MEMORY = 1_000_000_000
"""Bytes that reading may take above what the process had."""

Mutation = Callable[[bytes, Random], bytes]


def bytewise(data: bytes, random: Random) -> bytes:
    """A few damages as they happen to files."""
    for _ in range(random.randint(1, 4)):
        data = apply((random.choice(list(DAMAGES)), random.randrange(10_000), random.randrange(256)), data)
    return data


# Parquet

TYPES = (
    *(pl.Int8, pl.UInt64, pl.Float32, pl.Boolean, pl.Date, pl.Datetime("ns"), pl.Time, pl.Duration, pl.Binary),
    *(pl.Categorical, pl.Decimal(10, 2), pl.List(pl.String), pl.Struct({"a": pl.Int64}), pl.Null),
)


def retyped(data: bytes, random: Random) -> bytes:
    """The table written again, with other types and other options of the format."""
    frame = pl.read_parquet(io.BytesIO(data))
    for name in frame.columns:
        if random.random() < 0.3:
            kind = random.choice(TYPES)
            try:
                frame = frame.with_columns(pl.col(name).cast(kind, strict=False))
            except pl.exceptions.PolarsError:
                frame = frame.with_columns(pl.lit(None, kind).alias(name))
    buffer = io.BytesIO()
    options: dict[str, Any] = {
        "compression": random.choice(["none", "snappy", "gzip", "zstd", "brotli", "lz4"]),
        "use_dictionary": random.random() < 0.5,
        "data_page_version": random.choice(["1.0", "2.0"]),
        "row_group_size": random.randint(1, 5),
        "data_page_size": random.randint(1, 200),
        "write_page_index": random.random() < 0.5,
        "version": random.choice(["1.0", "2.4", "2.6"]),
        "store_schema": random.random() < 0.5,
    }
    try:
        pq.write_table(frame.to_arrow(), buffer, **options)
    except (pa.ArrowException, NotImplementedError):
        return data
    return buffer.getvalue()


NUMBERS = (0, 1, 2, 3, 63, 64, 127, 128, 2**14, 2**20, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1)


def varint(number: int) -> bytes:
    """A number as Thrift writes it."""
    found = bytearray()
    while number >= 128:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def footer(data: bytes, random: Random) -> bytes:
    """Another number somewhere in the footer, or in the header of a page; the length of the footer fits again."""
    length = int.from_bytes(data[-8:-4], "little")
    start = len(data) - 8 - length
    if not 0 < length < len(data) - 8:
        return data
    body, end = data[:start], bytearray(data[start:-8])
    for _ in range(random.randint(1, 3)):
        at = random.randrange(len(end))
        number = random.choice(NUMBERS)
        match random.randrange(5):
            case 0:
                end[at : at + 1] = varint(number << 1 ^ (-1 if random.random() < 0.3 else 0) & 1)
            case 1:
                end[at] = random.choice((0x19, 0x1B, 0x1C, 0x15, 0x16, 0x18, 0x17, 0xF9, 0x9C, 0x5C, 0xFC, 0xF5))
            case 2:
                end[at] ^= 1 << random.randrange(8)
            case 3:
                end[at:at] = bytes(random.randrange(256) for _ in range(random.randint(1, 4)))
            case _:
                del end[at : at + random.randint(1, 4)]
    if random.random() < 0.3 and len(body) > 8:
        at = random.randrange(4, len(body))
        body = body[:at] + bytes([random.randrange(256)]) + body[at + 1 :]
    return body + bytes(end) + struct.pack("<I", len(end)) + b"PAR1"


# Spreadsheets


def sheet_parts(data: bytes, random: Random) -> bytes:
    """One part of a zip file is damaged, and all is packed again."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as target:
        infos = source.infolist()
        chosen = random.choice(
            [info.filename for info in infos if "sheet" in info.filename or "content" in info.filename]
        )
        if random.random() < 0.3:
            chosen = random.choice(infos).filename
        for info in infos:
            content = source.read(info)
            target.writestr(info.filename, xml(content, random) if info.filename == chosen else content)
    return buffer.getvalue()


REFERENCES = ("A1", "XFD1048576", "ZZZZZZZ1", "A0", "A99999999999", "1A", "", "$B$2", "é5", "-1", "4294967296", "1e9")


def xml(content: bytes, random: Random) -> bytes:
    """XML with other numbers, references and elements; seldom so that it is none any more."""
    for _ in range(random.randint(1, 3)):
        places = [at for at in range(len(content)) if content[at : at + 1] in (b'"', b"<")]
        if not places:
            return content
        at = random.choice(places)
        end = content.find(b'"' if content[at : at + 1] == b'"' else b">", at + 1)
        match random.randrange(6):
            case 0 | 1 if content[at : at + 1] == b'"' and end > 0:
                content = content[: at + 1] + random.choice(REFERENCES).encode() + content[end:]
            case 2 if content[at : at + 1] == b"<" and end > 0:
                content = content[: end + 1] + content[at:]
            case 3 if end > 0:
                content = content[:at] + content[end + 1 :]
            case 4:
                content = bytewise(content, random)
            case _:
                pieces = (
                    b"<c/>",
                    b"<row/>",
                    b'<row r="9"/>',
                    b"<v>1e999</v>",
                    b"&amp;",
                    b"&x;",
                    b"<!-- -->",
                    b"<!DOCTYPE a>",
                )
                content = content[:at] + random.choice(pieces) + content[at:]
    return content


# JSON

VALUES = (
    None,
    True,
    0,
    -1,
    1.5,
    1e308,
    10**400,
    "",
    "x",
    "\ud800",
    [],
    {},
    [1],
    {"a": 1},
    "1990",
    "19##",
    [[]],
    float("nan"),
)


def values(data: bytes, random: Random) -> bytes:
    """Other values, keys and shapes."""
    value = json.loads(data)
    for _ in range(random.randint(1, 4)):
        value = _changed(value, random, 3)
    return json.dumps(value, ensure_ascii=random.random() < 0.5).encode(errors="replace")


def _changed(value: Any, random: Random, depth: int) -> Any:
    if depth and isinstance(value, list) and value:
        at = random.randrange(len(value))
        if random.random() < 0.2:
            return value[:at] + value[at + 1 :] if random.random() < 0.5 else [*value, value[at]]
        return [*value[:at], _changed(value[at], random, depth - 1), *value[at + 1 :]]
    if depth and isinstance(value, dict) and value:
        key = random.choice(list(value))
        if random.random() < 0.3:
            return {
                random.choice(("s", "x", "\0", "begin", "")) if each == key else each: of for each, of in value.items()
            }
        return {**value, key: _changed(value[key], random, depth - 1)}
    return random.choice(VALUES)


MUTATIONS: dict[str, tuple[Mutation, ...]] = {
    ".parquet": (bytewise, retyped, footer, footer, lambda data, random: footer(retyped(data, random), random)),
    ".xlsx": (bytewise, sheet_parts, sheet_parts, sheet_parts),
    ".ods": (bytewise, sheet_parts, sheet_parts, sheet_parts),
    ".json": (bytewise, values, values),
}


def mutated(suffix: str, random: Random) -> bytes:
    """A mutated file of a format; a packed one is mutated before it is packed, and sometimes after."""
    inner = suffix.removesuffix(".gz")
    data = random.choice(MUTATIONS.get(inner, (bytewise,)))(random.choice(good_files(inner)), random)
    if inner == suffix:
        return data
    packed = gzip.compress(data, 1, mtime=0)
    return bytewise(packed, random) if random.random() < 0.2 else packed


@contextmanager
def listening() -> Iterator[Callable[[], bytes]]:
    """Standard error of the process, whoever writes to it: what has been said so far."""
    kept = os.dup(2)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        try:
            yield lambda: os.pread(file.fileno(), 10_000, 0)
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def outcome(path: Path) -> str:
    """Read a file: `kb` or `refused`. Anything else, or a KB that does not add up, is an AssertionError."""
    begun = time.monotonic()
    with listening() as said_aloud:
        found = _outcome(path)
        assert said_aloud() == b"", said_aloud()
    assert time.monotonic() - begun < SECONDS, "it takes too long"
    return found


def _outcome(path: Path) -> str:
    try:
        kb = read_files([path])
    except TimeplexError as error:
        said = "refused" if "\n" not in str(error) else "refused in more than one line"
    except BaseException as error:  # polars can panic, which is no Exception
        if isinstance(error, KeyboardInterrupt):
            raise
        raise AssertionError(f"{type(error).__name__} escaped: {error}") from error
    else:
        said = "kb"
        assert kb.problems.rows_read == len(kb) + kb.problems.set_aside
        assert len(kb) >= 1
    assert said in ("kb", "refused"), said
    return said


def run(cases: int, seed: int, folder: Path) -> Counter[str]:
    """Check so many files, all formats in turn; how many had which outcome. One that fails stays in the folder."""
    found: Counter[str] = Counter()
    before = peak_bytes()
    for number in range(cases):
        random = Random(f"{seed} {number}")  # so that any one can be made again
        suffix = SUFFIXES[number % len(SUFFIXES)]
        path = folder / f"case{suffix}"
        path.write_bytes(mutated(suffix, random))
        try:
            found[outcome(path)] += 1
            assert peak_bytes() - before < MEMORY, "it takes too much memory"
        except AssertionError as error:
            kept = path.rename(folder / f"failed-{seed}-{number}{suffix}")
            found["failed"] += 1
            print(f"{kept}: {error}", flush=True)
    return found


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    begun, folder = time.monotonic(), Path(tempfile.mkdtemp(prefix="fuzz-"))
    found = run(options.cases, options.seed, folder)
    print(f"seed {options.seed}: {dict(found)} in {time.monotonic() - begun:.0f} s; {folder}")


if __name__ == "__main__":
    main()
