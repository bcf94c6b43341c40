"""Whether two checkouts say the same of the same runs, to the last digit.

    python tools/same_answers.py OLD NEW RUN…

Each verb that asks something of a run or its KB is run by the sources of both checkouts on copies of the run folders,
and what it prints and writes is compared; only seconds are left out. Prints a line a command; exit code 1 if any
differs.
"""

import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import polars as pl

OUTPUTS = ("filled.csv", "found.csv", "findings.csv", "findings.html")


def commands(run: Path) -> Iterator[list[str]]:
    """What is asked, about some test facts."""
    yield ["evaluate", "run", "--json"]
    yield ["audit", "run/kb", "-o", "findings.csv", "--html", "findings.html"]
    yield ["audit", "run/kb", "--run", "run", "--json"]
    yield ["stats", "run/kb"]
    yield ["problems", "run/kb", "--json"]
    yield ["fill", "run", "holes.csv", "-o", "filled.csv"]
    yield ["discover", "run", "-o", "found.csv", "--min-prob", "0.2"]
    for s, r, o, at in facts(run):
        yield ["rank", "run", "--subject", s, "--relation", r, "--at", at, "--explain", "--json"]
        yield ["rank", "run", "--object", o, "--relation", r, "--at", at, "-k", "20"]
        yield ["when", "run", "--explain", "--json", "--", s, r, o]
        yield ["explain", "run", "--at", at, "--json", "--", s, r, o]


def facts(run: Path, number: int = 3) -> list[tuple[str, str, str, str]]:
    """Some test facts with the year in which they begin."""
    names = {kind: pl.read_parquet(run / "kb" / f"{kind}.parquet")["name"] for kind in ("entities", "relations")}
    test = pl.read_parquet(run / "kb" / "facts.parquet").filter(pl.col("split") == "test").drop_nulls("begin")
    some = test.gather_every(max(1, test.height // number)).head(number)
    return [
        (names["entities"][s], names["relations"][r], names["entities"][o], str(begin))
        for s, r, o, begin, *_ in some.iter_rows()
    ]


def holes(run: Path) -> str:
    """A table that lacks objects, begins and ends in turn."""
    lines = ["subject,relation,object,begin,end"]
    for s, r, o, at in facts(run, 12):
        lines += [f'"{s}",{r},,{at},{at}', f'"{s}",{r},"{o}",,', f'"{s}",{r},"{o}",{at},']
    return "\n".join([*lines, ""])


def answers(checkout: Path, run: Path) -> dict[str, str]:
    """What the sources of a checkout say to each command, and what they write."""
    said = {}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        shutil.copytree(run, place / "run")
        for kept in ("calibration.json",):
            (place / "run" / kept).unlink(missing_ok=True)
        (place / "holes.csv").write_text(holes(run))
        for command in commands(run):
            done = subprocess.run(  # noqa: S603 - no shell, and our own verbs
                [sys.executable, "-m", "timeplex.cli.main", *command],
                cwd=place,
                env={**os.environ, "PYTHONPATH": str(checkout / "src"), "COLUMNS": "200"},
                capture_output=True,
                text=True,
                check=False,
            )
            written = [path.read_text() for name in OUTPUTS if (path := place / name).exists()]
            whole = "\n".join([str(done.returncode), done.stdout, done.stderr, *written])
            said[" ".join(command)] = re.sub(r'\d+\.\d+ s\b|"seconds": [\d.]+', "", whole)
            for name in OUTPUTS:
                (place / name).unlink(missing_ok=True)
    return said


def main() -> None:
    """Compare, and show where they differ."""
    old, new, *runs = (Path(argument).resolve() for argument in sys.argv[1:])
    differ = 0
    for run in runs:
        before, after = answers(old, run), answers(new, run)
        for command, said in before.items():
            same = said == after[command]
            differ += not same
            print("same     " if same else "DIFFERENT", run.name, command, flush=True)
            if not same:
                lines = difflib.unified_diff(said.splitlines(), after[command].splitlines(), lineterm="", n=0)
                print("\n".join(line[:200] for line, _ in zip(lines, range(12), strict=False)))
    print(f"{differ} commands differ")
    sys.exit(differ > 0)


if __name__ == "__main__":
    main()
