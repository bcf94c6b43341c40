"""What reading may cost, by the byte and by the row, whatever is in the file: docs/data.md states the figures."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.patience import patience

from timeplex.kb.problems import LISTED

SIZE = 1_500_000
FREE = 100_000_000
"""Bytes of memory that reading may take in any case: the problems that are listed one by one."""
A_BYTE, A_ROW = 12, 400
"""… and so many for each byte of the file, or for each row if that is more."""
SECONDS = 10.0
"""Of the processor for each megabyte: most take a tenth of that."""

HEADER = b"subject,relation,object,begin,end\n"
FACT = b"a,r,b,1990,1991\n"
OBJECT = b'{"s": "a", "r": "b", "o": "c"}'


def filled(piece: bytes) -> bytes:
    return piece * (SIZE // len(piece))


def ordinary() -> list[tuple[str, ...]]:
    """Rows as people have them."""
    return [
        (
            f"person {at * 7919 % 20_000}",
            "worksFor",
            f"company {at * 104_729 % 3000}",
            f"{1900 + at % 90}",
            f"{1991 + at % 9}",
        )
        for at in range(SIZE // 45)
    ]


def csv(before: str = "", between: str = ",") -> bytes:
    rows = [tuple(HEADER.decode().strip().split(",")), *ordinary()]
    return "".join(f"{before}{between.join(row)}{before}\n" for row in rows).encode()


def objects() -> list[str]:
    keys = HEADER.decode().strip().split(",")
    return [json.dumps(dict(zip(keys, row, strict=True))) for row in ordinary()]


SHAPES: dict[str, Callable[[], bytes]] = {
    "ordinary.csv": csv,
    "quoted.csv": lambda: csv('"', '","'),
    "separators alone.csv": lambda: b"s,r,o\n" + filled(b",,\n"),
    "one row again and again.csv": lambda: b"s,r,o\n" + filled(b"a,b,c\n"),
    "blank lines.csv": lambda: HEADER + FACT + filled(b"\n"),
    "blank lines first.csv": lambda: filled(b"\n") + HEADER + FACT,
    "many columns.csv": lambda: (
        HEADER.strip() + b",c" * (SIZE // 4) + b"\n" + FACT.strip() + b"," * (SIZE // 4) + b"\n"
    ),
    "too few fields.csv": lambda: HEADER + FACT + filled(b"a,b\n"),
    "no text.csv": lambda: HEADER + FACT + filled(b"\xff\n"),
    "a quote a line.csv": lambda: HEADER + FACT + filled(b'"\n'),
    "empty quotes.csv": lambda: HEADER + FACT + filled(b'"",' * 4 + b"\n"),
    "a long field.csv": lambda: HEADER + b'"' + filled(b"x") + b'",r,b,1990,1991\n',
    "no dates.csv": lambda: HEADER + filled(b"a,r,b,x,y\n"),
    "empty objects.jsonl": lambda: OBJECT + b"\n" + filled(b"{}\n"),
    "numbers.jsonl": lambda: OBJECT + b"\n" + filled(b"1\n"),
    "braces.jsonl": lambda: OBJECT + b"\n" + filled(b"{\n"),
    "many keys.jsonl": lambda: b"".join(b'{"k%d": 1}\n' % at for at in range(SIZE // 14)),
    "ordinary.json": lambda: f"[{','.join(objects())}]".encode(),
    "empty objects.json": lambda: b"[" + OBJECT + filled(b",{}") + b"]",
}
"""Files of `SIZE` bytes, more or less, by name."""

CODE = """
import json, sys, time
from tests.memory import peak_bytes as peak
from timeplex.errors import TimeplexError
from timeplex.sources import read

read({"s": ["a"], "r": ["b"], "o": ["c"], "begin": [1990]})
base, begun, said = peak(), time.process_time(), "kb"
try:
    problems = read(sys.argv[1]).problems
    assert (problems.frame["kind"].value_counts()["count"].max() or 0) <= %d
except TimeplexError as error:
    said = str(error)
print(json.dumps([peak() - base, time.process_time() - begun, said]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_no_file_costs_more_than_its_size_allows(name: str, tmp_path: Path) -> None:
    data = SHAPES[name]()
    (tmp_path / name).write_bytes(data)
    command = [sys.executable, "-c", CODE % LISTED, str(tmp_path / name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=patience(200))
    assert done.returncode == 0, done.stderr[-2000:]
    peak, seconds, said = json.loads(done.stdout)
    rows = 1 if "lines" in name else max(data.count(b"\n"), data.count(b"{"))
    allowed = FREE + max(A_BYTE * len(data), A_ROW * rows)
    assert peak <= allowed, f"{peak / 1e6:.0f} MB of {allowed / 1e6:.0f} ({said})"
    assert seconds <= SECONDS * len(data) / 1e6, f"{seconds:.1f} s ({said})"
