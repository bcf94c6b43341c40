"""Errors of a known kind put into a KB, and measures of how well an audit finds them.

dates-shifted      both known ends of a dated fact move by the same number of years, uniform in 10 … 100 (in finer KBs
                   also by some days or months), to either side with equal chance: a wrong decade or century, or the
                   dates of another bearer of the name. Smaller shifts are left out: who has nothing but the KB can
                   hardly tell them from the truth.
ends-swapped       begin and end of a fact that lasts change places: columns mixed up. The facts are written to files
                   and read back, as a user's would be; the readers repair and report them.
objects-replaced   the object becomes another one that is an object of the same relation elsewhere: a wrong link to an
                   entity of the right sort.
"""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from timeplex.auditing.findings import Findings
from timeplex.errors import InputError
from timeplex.kb.facts import SPLITS, Facts, TemporalKB, pair_key, split_key
from timeplex.kb.names import Names
from timeplex.kb.readers import read_folder
from timeplex.kb.store import write_frame
from timeplex.patterns.relation_classes import INSTANTS_A_YEAR
from timeplex.typing import Floats, Ints

LEAST_YEARS, MOST_YEARS = 10, 100


def inject(kb: TemporalKB, kind: str, share: float = 0.02, seed: int = 0) -> tuple[TemporalKB, Ints]:
    """The KB with errors of one kind in a share of its facts, and the rows of `kb.facts` (of the new KB) that have
    them.

    A fraction of all facts is drawn, without a second time, from those that can have such an error; if there are too
    few, all of them have it.
    """
    if kind not in KINDS:
        raise InputError(f"There is no kind of error {kind!r}.", f"The kinds are {', '.join(KINDS)}.")
    if not 0 < share <= 1:
        raise InputError(f"A share of {share!r} cannot be injected.", "Give a number above 0, at most 1.")
    return KINDS[kind](kb, share, np.random.default_rng(seed))


def _drawn(eligible: Ints, kb: TemporalKB, share: float, random: np.random.Generator) -> Ints:
    number = min(round(share * len(kb)), len(eligible))
    return np.sort(random.choice(eligible, number, replace=False))


def _with_facts(kb: TemporalKB, facts: Facts) -> TemporalKB:
    """The KB with other facts, of the same splits and sizes."""
    stops = np.cumsum([len(kb.splits.get(split, Facts.empty())) for split in SPLITS])
    parts = zip(SPLITS, [0, *stops], stops, strict=False)
    return replace(kb, splits={split: facts[start:stop] for split, start, stop in parts if split in kb.splits})


def _shift_dates(kb: TemporalKB, share: float, random: np.random.Generator) -> tuple[TemporalKB, Ints]:
    facts = kb.facts
    begin, end = facts.begin.astype(np.int64), facts.end.astype(np.int64)
    known = facts.has_begin, facts.has_end
    rows = _drawn(np.flatnonzero(known[0] | known[1]), kb, share, random)
    year = INSTANTS_A_YEAR[kb.granularity]
    years = random.integers(LEAST_YEARS, MOST_YEARS + 1, len(rows)) * random.choice([-1, 1], len(rows))
    shift = np.zeros(len(facts), np.int64)
    shift[rows] = np.round(years * year).astype(np.int64) + random.integers(0, max(int(year), 1), len(rows))
    moved = (np.where(is_known, ends + shift, ends) for ends, is_known in zip((begin, end), known, strict=True))
    return _with_facts(kb, Facts(facts.s, facts.r, facts.o, *(ends.astype(np.int32) for ends in moved))), rows


def _replace_objects(kb: TemporalKB, share: float, random: np.random.Generator) -> tuple[TemporalKB, Ints]:
    facts = kb.facts
    pairs = np.unique(pair_key(facts.r, facts.o))
    objects = np.bincount(split_key(pairs)[0], minlength=len(kb.relations))
    start = np.cumsum(objects) - objects
    rows = _drawn(np.flatnonzero(objects[facts.r] > 1), kb, share, random)
    relation = facts.r[rows]
    # One of the others: the places after the true object count one less.
    truth = np.searchsorted(pairs, pair_key(relation, facts.o[rows]))
    chosen = start[relation] + random.integers(0, objects[relation] - 1)
    chosen += chosen >= truth
    objects_now = facts.o.copy()
    objects_now[rows] = split_key(pairs[chosen])[1]
    return _with_facts(kb, Facts(facts.s, facts.r, objects_now, facts.begin, facts.end)), rows


def _swap_ends(kb: TemporalKB, share: float, random: np.random.Generator) -> tuple[TemporalKB, Ints]:
    facts = kb.facts
    lasting = facts.closed & (facts.begin < facts.end)
    rows = _drawn(np.flatnonzero(lasting), kb, share, random)
    order = {split: number for number, split in enumerate(SPLITS)}
    frame = kb.to_polars().sort(pl.col("split").replace_strict(order, return_dtype=pl.Int64), maintain_order=True)
    swapped = pl.Series(np.isin(np.arange(len(facts)), rows))
    frame = frame.with_columns(
        begin=pl.when(swapped).then("end").otherwise("begin"), end=pl.when(swapped).then("begin").otherwise("end")
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for split, part in frame.group_by("split", maintain_order=True):
            write_frame(part.drop("split"), folder / f"{split[0]}.csv", formulas=True)
        reread = read_folder(folder, granularity=kb.granularity)
    reread = replace(
        reread,
        entities=Names(reread.entities.names, kb.entities.labels),
        relations=Names(reread.relations.names, kb.relations.labels),
        name=kb.name,
        # What was wrong before is still wrong.
        problems=replace(kb.problems, frame=pl.concat([kb.problems.frame, reread.problems.frame])),
    )
    return reread, _found_again(frame.filter(swapped), reread)


def _found_again(rows: pl.DataFrame, kb: TemporalKB) -> Ints:
    """The rows of `kb.facts` that rows of the files became: with the same names and begin, in the same split."""
    key = ["split", "subject", "relation", "object", "begin"]
    now = kb.to_polars().with_row_index("at").unique(key, keep="first", maintain_order=True)
    at = rows.select(key).join(now, on=key, how="inner")["at"]
    return np.unique(at.to_numpy().astype(np.int64))


KINDS: dict[str, Callable[[TemporalKB, float, np.random.Generator], tuple[TemporalKB, Ints]]] = {
    "dates-shifted": _shift_dates,
    "ends-swapped": _swap_ends,
    "objects-replaced": _replace_objects,
}


def ranked_facts(findings: Findings) -> Ints:
    """The suspicious facts, most suspicious first, each once: rows of `kb.facts`."""
    _, first = np.unique(findings.rows, return_index=True)
    return findings.rows[np.sort(first)]


def precision_at_injected(ranked: Ints, injected: Ints) -> float:
    """Of the n first facts, the share that was injected; n is the number injected. A shorter list misses the rest."""
    return float(np.isin(ranked[: len(injected)], injected).sum() / max(len(injected), 1))


def average_precision(ranked: Ints, injected: Ints) -> float:
    """The mean, over all injected facts, of the precision down to their rank; 0 for those that are not found."""
    hit = np.isin(ranked, injected)
    precision: Floats = np.cumsum(hit) / np.arange(1, len(hit) + 1)
    return float(precision[hit].sum() / max(len(injected), 1))
