"""KBs, facts and small trained runs for tests: one way to make each from a few rows."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import polars as pl
from typer.testing import CliRunner

import timeplex
from timeplex.evaluation.ranking import PlacedFacts
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.kb.names import Names
from timeplex.kb.problems import Problems

Row = tuple[int, int, int, int, int]
"""Subject, relation, object, begin, end."""


def facts_of(rows: Iterable[Sequence[int]]) -> Facts:
    """Rows (s, r, o, begin, end) as columns."""
    return Facts(*np.array(list(rows), np.int64).reshape(-1, 5).T)


def placed_of(rows: Iterable[Sequence[int]]) -> PlacedFacts:
    """Rows (s, r, o, first, last) as columns, with places on a timeline."""
    return PlacedFacts(*np.array(list(rows), np.int64).reshape(-1, 5).T)


def kb_of(
    facts: Iterable[Sequence[int]] | Mapping[str, Facts],
    entities: int | Sequence[str],
    relations: int | Sequence[str],
    granularity: Granularity = Granularity.YEAR,
    name: str = "kb",
) -> TemporalKB:
    """A KB of training rows, or of facts by split; names are given in sorted order, or as how many there are."""
    splits = facts if isinstance(facts, Mapping) else {"train": facts_of(facts)}
    problems = Problems.none(sum(map(len, splits.values())))
    return TemporalKB(_names("e", entities), _names("r", relations), granularity, dict(splits), problems, name)


def _names(letter: str, given: int | Sequence[str]) -> Names:
    if isinstance(given, int):  # e0, e1 …; e00, e01 … if there are more than ten: as many digits as keep them sorted
        given = [f"{letter}{number:0{len(str(given - 1))}}" for number in range(given)]
    return Names(pl.Series(list(given), dtype=pl.String))


def csv_kb(folder: Path, splits: Mapping[str, Sequence[str]]) -> TemporalKB:
    """A KB that is read from lines `subject,relation,object,begin,end` by split."""
    for split, lines in splits.items():
        (folder / f"{split}.csv").write_text("\n".join(["subject,relation,object,begin,end", *lines]))
    return timeplex.read(folder)


def small_kb(facts: int, seed: int = 0, valid: float = 0.1, test: float = 0.1, split_seed: int = 0) -> TemporalKB:
    """A made-up KB in three splits."""
    return timeplex.split_randomly(timeplex.generate(facts, seed=seed), valid=valid, test=test, seed=split_seed)


def trained_run(kb: TemporalKB, name: str, *options: str) -> Path:
    """The folder of a run, trained by the command line in a place of its own."""
    from timeplex.cli.main import app

    place = Path(mkdtemp(prefix="timeplex-run-"))
    kb.save(place / f"{kb.name}.kb")
    arguments = ["train", str(place / f"{kb.name}.kb"), "-o", str(place / name), "--no-patterns", *options]
    answer = CliRunner().invoke(app, arguments)
    assert answer.exit_code == 0, answer.output
    return place / name
