"""KBs at the edge of what a KB can be, and all verbs to take them through.

    python -m tests.cli.extreme_kbs [NAME…] [--size 1.0] [--models timeplex] [--plain]

takes them through by hand, in full size, each verb in a process of its own, and prints exit code, seconds and peak
memory of each.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl

from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.kb.names import Names
from timeplex.kb.problems import Problems
from timeplex.kb.spans import OPEN_BEGIN, OPEN_END

Columns = tuple[object, object, object, object, object]
DAY, YEAR = Granularity.DAY, Granularity.YEAR
FIRST_DAY, LAST_DAY = -4_371_953, 2_932_896
"""−10000-01-01 and 9999-12-31."""

QUICK = ("--set", "epochs=1", "--set", "options.dimension=4", "--set", "phase2.epochs=1")


def kb_of(granularity: Granularity, names: tuple[str, str] = ("e", "r"), **splits: Columns) -> TemporalKB:
    """A KB of columns s, r, o, begin, end (numbers, which broadcast) by split, named after their numbers."""
    facts = {split: Facts(*map(np.atleast_1d, np.broadcast_arrays(*columns))) for split, columns in splits.items()}
    entities = 1 + max(int(max(each.s.max(initial=0), each.o.max(initial=0))) for each in facts.values())
    relations = 1 + max(int(each.r.max(initial=0)) for each in facts.values())
    named = (_numbered(text, count) for text, count in zip(names, (entities, relations), strict=True))
    rows = sum(map(len, facts.values()))
    return TemporalKB(
        *map(Names, named), granularity, {"train": Facts.empty(), **facts}, Problems.none(rows), "extreme"
    )


def _numbered(name: str, count: int) -> pl.Series:
    return name + pl.Series(np.arange(count)).cast(pl.String).str.zfill(7)


def _random(facts: int, entities: int, relations: int, first: int, last: int, longest: int = 0) -> Columns:
    random = np.random.default_rng(facts)
    s, o = random.integers(entities, size=(2, facts))
    begin = random.integers(first, last + 1, size=facts)
    end = np.minimum(begin + random.integers(longest + 1, size=facts), last)
    return s, random.integers(relations, size=facts), o, begin, end


def _parts(columns: Columns, granularity: Granularity = YEAR) -> TemporalKB:
    """Eight in ten facts train, one valid, one test."""
    count = len(np.broadcast_arrays(*columns)[0])
    cuts = [0, count * 8 // 10, count * 9 // 10, count]
    whole = np.broadcast_arrays(*columns)
    parts = {
        split: tuple(column[low:high] for column in whole)
        for split, low, high in zip(("train", "valid", "test"), cuts, cuts[1:], strict=False)
    }
    return kb_of(granularity, **parts)  # type: ignore[arg-type]


def _some(scale: float, full: int, least: int = 100) -> int:
    return max(least, round(full * scale))


def _sentinel(scale: float) -> TemporalKB:
    """9999-12-31 for `unknown` in 30 % of the ends."""
    s, r, o, begin, end = _random(_some(scale, 3_000), 300, 5, 7_000, 20_000, 4_000)
    return _parts((s, r, o, begin, np.where(np.arange(len(np.asarray(s))) % 10 < 3, LAST_DAY, end)), DAY)


def _many_relations(scale: float) -> TemporalKB:
    """Every relation has a few facts; most pairs of relations never meet."""
    relations = _some(scale, 10_000)
    s, _, o, begin, end = _random(5 * relations, relations, relations, 1900, 2000, 5)
    return _parts((s, np.arange(5 * relations) % relations, o, begin, end))


def _one_subject(scale: float) -> TemporalKB:
    """One entity has all relations: every pair of relations meets."""
    relations = _some(scale, 10_000)
    number = np.arange(2 * relations)
    return _parts((0, number % relations, 1 + number // 7, 1900 + number % 100, 1900 + number % 100))


KBS: dict[str, Callable[[float], TemporalKB]] = {
    "one fact": lambda _: kb_of(YEAR, train=(0, 0, 1, 1990, 1995)),
    "two facts": lambda _: kb_of(YEAR, train=([0, 0], [0, 0], [1, 2], [1990, 1996], [1995, OPEN_END])),
    "a fact in each split": lambda _: kb_of(
        DAY, train=(0, 0, 1, 9_000, 9_000), valid=(0, 0, 1, 9_001, 9_001), test=(1, 0, 0, 9_002, 9_003)
    ),
    "one entity": lambda _: _parts((0, 0, 0, np.arange(1900, 2000), np.arange(1900, 2000))),
    "self loops": lambda _: _parts((np.arange(100) % 9, np.arange(100) % 3, np.arange(100) % 9, 1950, 1960)),
    "one time": lambda _: _parts((*_random(300, 30, 3, 0, 9)[:3], 2000, 2000)),
    "one time by day": lambda _: _parts((*_random(300, 30, 3, 0, 9)[:3], LAST_DAY, LAST_DAY), DAY),
    "all ends open": lambda _: _parts((*_random(300, 30, 3, 1950, 2000)[:4], OPEN_END)),
    "all begins open": lambda _: _parts((*_random(300, 30, 3, 0, 9)[:3], OPEN_BEGIN, np.arange(300) % 50 + 1950)),
    "both ends open but in one": lambda _: _parts(
        (*_random(200, 20, 2, 0, 9)[:3], OPEN_BEGIN, np.where(np.arange(200) == 7, 1950, OPEN_END))
    ),
    "no dev": lambda _: kb_of(YEAR, train=_random(60, 9, 2, 1950, 2000), test=_random(9, 9, 2, 1950, 2000)),
    "no test": lambda _: kb_of(YEAR, train=_random(60, 9, 2, 1950, 2000), valid=_random(9, 9, 2, 1950, 2000)),
    "entities only in test": lambda _: kb_of(
        YEAR,
        train=_random(100, 9, 2, 1950, 2000),
        valid=_random(60, 9, 2, 1950, 2000),
        test=(np.arange(20, 40), 0, np.arange(40, 60), 1960, 1970),
    ),
    "a relation only in valid": lambda _: kb_of(
        YEAR,
        train=_random(100, 9, 2, 1950, 2000),
        valid=(np.arange(60) % 9, 2, np.arange(60) % 7, 1960, 1970),
        test=_random(20, 9, 2, 1950, 2000),
    ),
    "dates outside of train": lambda _: kb_of(
        YEAR,
        train=_random(100, 9, 2, 1950, 1960),
        valid=_random(60, 9, 2, 1800, 1810),
        test=_random(60, 9, 2, 2050, 2060),
    ),
    "one triple at many times": lambda scale: _parts((0, 0, 1, *2 * [np.arange(_some(scale, 20_000))]), DAY),
    "the same fact many times": lambda _: _parts((np.zeros(300, int), 0, 1, 1990, 1995)),
    "one subject of all": _one_subject,
    "one question with all answers": lambda scale: _parts(
        (0, 0, 1 + np.arange(_some(scale, 100_000)), 1900 + np.arange(_some(scale, 100_000)) % 100, 2000)
    ),
    "one relation": lambda scale: _parts(_random(_some(scale, 1_000_000), _some(scale, 20_000), 1, 1900, 2000, 50)),
    "many relations": _many_relations,
    "twenty thousand years by day": lambda scale: _parts(
        _random(_some(scale, 10_000), 500, 5, FIRST_DAY, LAST_DAY, 40_000), DAY
    ),
    "two days, twenty thousand years apart": lambda _: _parts(
        (*_random(300, 30, 3, 0, 9)[:3], *2 * [np.where(np.arange(300) % 2, FIRST_DAY, LAST_DAY)]), DAY
    ),
    "spans of twenty thousand years": lambda _: _parts((*_random(300, 30, 3, 0, 9)[:3], FIRST_DAY, LAST_DAY), DAY),
    "sentinel": _sentinel,
    "odd names": lambda _: kb_of(
        YEAR, ("\u202e=\x1b[31m<b>名 '\"\t", "[red]ß;,\u0301"), train=_random(60, 9, 2, 1950, 2000)
    ),
}

MODELS = ("timeplex", "timeplex-base", "de-simple", "hyte", "ta", "complex")


def preparing(kb: TemporalKB, models: tuple[str, ...]) -> Iterator[list[str]]:
    """The verbs that begin with a KB, which lies in `kb`, and leave runs named after models."""
    table = kb.to_polars().drop("split")
    table.write_parquet("table.parquet")
    yield ["import", "table.parquet", "-o", "again", "--granularity", str(kb.granularity)]
    yield ["stats", "kb", "--json"]
    yield ["problems", "kb", "--json"]
    yield ["audit", "kb", "-o", "findings.csv", "--html", "findings.html"]
    yield ["split", "kb", "-o", "split"]
    yield ["split", "kb", "-o", "split-by-time", "--by-time", "--json"]
    yield ["evaluate", "kb", "--json"]
    for model in models:
        yield ["train", "kb", "-o", model, "--model", model, *QUICK]
    yield ["train", "kb", "-o", "calendar", "--model", "timeplex-base", "--set", "timeline=calendar", *QUICK]
    yield ["tune", "kb", "-o", "search", "--trials", "1", "--model", "timeplex-base", *QUICK]


def plain(kb: TemporalKB) -> Iterator[list[str]]:
    """The verbs that ask the KB itself, which lies in `kb`, by its patterns: about its first fact and its last."""
    facts = kb.to_polars()
    for row in (0, -1):
        _, s, r, o, begin, end = facts.row(row)
        yield ["when", "kb", "--explain", "--json", "--", s, r, o]
        yield ["rank", "kb", f"--subject={s}", f"--relation={r}", f"--at={begin or ''}..{end or ''}", "--explain"]
        yield ["rank", "kb", f"--object={o}", f"--relation={r}", f"--at={begin or end or '..'}", "--json"]


def asking(kb: TemporalKB, run: str) -> Iterator[list[str]]:
    """The verbs that ask a run, about the first fact and the last, which may be of test."""
    facts = kb.to_polars()
    for row in (0, -1):
        _, s, r, o, begin, end = facts.row(row)
        at = f"{begin or ''}..{end or ''}"
        yield ["when", run, *(["--plot", "when.png"] if row else ["--explain", "--json"]), "--", s, r, o]
        yield ["rank", run, f"--subject={s}", f"--relation={r}", f"--at={at}", "--explain", "--json"]
        yield ["rank", run, f"--object={o}", f"--relation={r}", f"--at={begin or end or '..'}", "--hide-known"]
        yield ["explain", run, f"--at={at}", "--json", "--", s, r, o]
    holes = facts.drop("split").head(40).with_row_index("hole")
    for column, remainder in (("object", 0), ("begin", 1), ("end", 2)):
        holes = holes.with_columns(pl.when(pl.col("hole") % 4 != remainder).then(pl.col(column)).alias(column))
    holes.drop("hole").write_parquet("holes.parquet")
    yield ["fill", run, "holes.parquet", "-o", "filled.csv", "--json"]
    yield ["discover", run, "-o", "found.csv", "--min-prob", "0", "--json"]
    yield ["evaluate", run, "--by", "relation", "--per-query", "queries.parquet", "--json"]
    yield ["compare", run, run, "--by-relation", "--json"]
    yield ["diagnose", run, "--distances", "distances.png", "--json"]
    yield ["audit", "kb", "--run", run, "-o", "findings.csv", "--json"]


def fault(code: int, out: str, err: str) -> str:
    """What is wrong with what a verb left behind, if anything: it is to answer, or to say in a sentence why not."""
    if code not in (0, 2, 3) or "Traceback" in err or "fault of ours" in err:
        return f"code {code}: {err[-300:]}"
    if code and err.count("error: ") != 1:
        return f"no sentence: {err[-300:]}"
    number = re.search(r"\b(NaN|nan|Infinity|inf)\b", out)
    return f"{number[0]} in the answer" if number else ""


def main() -> None:
    """All KBs, or the named ones, in full size."""
    parser = argparse.ArgumentParser(description="Extreme KBs through every verb.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"Of: {', '.join(KBS)}")
    parser.add_argument("--size", type=float, default=1.0, help="Of the large ones.")
    parser.add_argument("--models", nargs="*", default=["timeplex"])
    parser.add_argument("--plain", action="store_true", help="Only the verbs that need no training.")
    parser.add_argument("--seconds", type=float, default=600.0, help="For one verb.")
    options = parser.parse_args()
    for name in options.names or KBS:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            kb = KBS[name](options.size)
            kb.save("kb")
            print(f"\n{name}: {kb}", flush=True)
            for arguments in plain(kb):
                _timed(arguments, options.seconds)
            if options.plain:
                os.chdir("/")
                continue
            for arguments in preparing(kb, tuple(options.models)):
                _timed(arguments, options.seconds)
            for run in options.models:
                if Path(run, "metrics.json").exists():
                    for arguments in asking(TemporalKB.load(f"{run}/kb"), run):
                        _timed(arguments, options.seconds)
            os.chdir("/")


def _timed(arguments: list[str], seconds: float) -> None:
    """Run a verb in a process of its own and print how it went."""
    start = time.monotonic()
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        command = [sys.executable, "-m", "timeplex.cli.main", *map(str, arguments)]
        process = subprocess.Popen(command, stdout=out, stderr=err)
        clock = threading.Timer(seconds, process.kill)
        clock.start()
        _, status, used = os.wait4(process.pid, 0)
        clock.cancel()
        code = process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0), err.seek(0)
        complaint = err.read()
        wrong = fault(code, out.read(), complaint)
    said = wrong or (complaint.strip().splitlines()[-1] if code else "")
    figures = f"{code:>3} {time.monotonic() - start:7.1f} s {used.ru_maxrss * 1024 / 1e9:5.2f} GB"
    print(f"{'BAD' if wrong else '   '} {figures}  {' '.join(map(str, arguments))[:70]}  {said[:150]}", flush=True)


if __name__ == "__main__":
    main()
