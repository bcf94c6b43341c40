"""Calibration: how raw probabilities become ones that can be believed, fitted on dev, never on test.

Who. For each dev fact both questions are asked; what train states for their time is known and left out. A candidate
among the ten best is right if a dev fact says it for that time. Raw probabilities of all these candidates are mapped to
the share of right ones (`maps`; groups are relation and direction).

When. For each dev fact with both ends known a span is predicted. It is right if it shares an instant with the true one.
The decoder is the one with the best mean aeIOU, with plain or weighted parts of the score (`weights`); in judging this,
weights and thresholds are those of the other half of the facts. The interval is fitted on the dev facts whose begin is
known.

Figures called `after` are those of cases that had no part in fitting (five folds by fact; two for
intervals, but for the few weights, which all facts have fitted).
"""

import hashlib
import math
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from timeplex.answers import calibration_maps, when
from timeplex.answers.calibration_maps import CalibrationMap, before_and_after
from timeplex.answers.rank import EntityQueries, EntityRanker, KnownAnswers, Ranker
from timeplex.answers.when import Dating, SpanDecoding, fit_weights, held
from timeplex.errors import InputError, TimeplexError
from timeplex.evaluation.metrics import aeiou
from timeplex.evaluation.report import ways_to_decode
from timeplex.evaluation.time_prediction import RULES, DevValues, Thresholds, both_ends_known, dev_values
from timeplex.files import MANIFEST, Record, Table, read, read_json, to_json, write_whole
from timeplex.kb import spans
from timeplex.kb.facts import Facts
from timeplex.models.scorer import DIRECTIONS, Direction
from timeplex.training.run import TrainedRun
from timeplex.typing import Bools, Floats, Ints, Progress

MOST_FACTS = 5_000
"""At most so many dev facts are asked for, drawn with a fixed seed."""

MOST_INSTANTS = 2_600_000
"""When: so many scores of instants are asked for at most, so that a long timeline has fewer facts, but `ENOUGH`."""

ENOUGH = 200
"""So many facts are asked for on any timeline."""

LEAST_FACTS = 50
"""With fewer dev facts nothing is fitted."""

TOP = 10
"""The candidates of each question that count."""


STEPS = 12
"""Who has one, when the others: see `_fit_when`."""


class _Steps:
    """Counts steps for whoever wants to hear of them."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress, self._done = progress, -1
        self()

    def __call__(self) -> None:
        """One more is done."""
        self._done += 1
        if self._progress is not None:
            self._progress(self._done, STEPS)


class Calibration(BaseModel):
    """What was fitted on dev: who by a map (groups: `group`), when by a way; and how good that is.

    who_facts, when_facts   how many dev facts each was fitted on; 0 means that it was not
    measured                expected calibration errors and coverage, before and after
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    who: CalibrationMap = CalibrationMap()
    who_facts: int = 0
    when: SpanDecoding = SpanDecoding()
    when_facts: int = 0
    measured: dict[str, dict[str, float]] = {}

    def fits(self, run: TrainedRun) -> bool:
        """Whether it can be used with a run, which a stored one need not."""
        relations = len(run.kb.relations)
        told = {"rank@1": self.who_facts, "span overlaps gold": self.when_facts}
        return (
            min(told.values()) >= 0
            and all("after" in self.measured.get(name, {}) for name, facts in told.items() if facts)
            and all(math.isfinite(figure) for figures in self.measured.values() for figure in figures.values())
            and self.who.fits(2 * relations)
            and self.when.fits(relations)
        )

    def rank(self, raw: Floats, r: Ints, direction: Direction) -> Floats:
        """Probabilities of candidates, (n, k), from raw ones; r: (n,)."""
        return self.who(raw, group(r, direction)[:, None])

    def note(self, question: str) -> str:
        """One sentence about how far the probabilities of `rank` or `when` can be believed."""
        facts = self.who_facts if question == "rank" else self.when_facts
        if not facts:
            return (
                f"Probabilities are not calibrated: the run's KB has fewer than {LEAST_FACTS} dev facts "
                "that could tell how often they come true."
            )
        error = self.measured["rank@1" if question == "rank" else "span overlaps gold"]["after"]
        return f"Probabilities were calibrated on {facts:,} dev facts: expected calibration error {error:.3f}."


def group(r: Ints, direction: Direction) -> Ints:
    """Relation and direction as one number: (n,)."""
    return 2 * np.asarray(r, np.int64) + (direction == "subject")


def fit(run: TrainedRun, progress: Progress | None = None) -> Calibration:
    """All that dev can tell."""
    step, facts = _Steps(progress), some_of(run.kb.valid)
    found = Calibration()
    if len(facts) >= LEAST_FACTS:
        found = found.model_copy(update=_fit_who(run, facts))
    step()
    facts = _for_when(run, facts)
    if run.scorer.predicts_times and len(both_ends_known(facts)) >= LEAST_FACTS:
        when = _fit_when(run, facts, step)
        found = found.model_copy(update={**when, "measured": {**found.measured, **when["measured"]}})
    return found


def work(run: TrainedRun) -> int:
    """How many scores `fit` asks for, about: of entities twice, of instants ten times."""
    who, when = len(some_of(run.kb.valid)), len(_for_when(run, some_of(run.kb.valid)))
    return 2 * who * len(run.kb.entities) + 10 * when * len(run.timeline) * run.scorer.predicts_times


def _for_when(run: TrainedRun, facts: Facts) -> Facts:
    """As many of the facts as the length of the timeline allows."""
    return some_of(facts, max(ENOUGH, MOST_INSTANTS // len(run.timeline)))


def some_of(facts: Facts, most: int = MOST_FACTS) -> Facts:
    """All facts, or as many as allowed, drawn with a fixed seed and kept in order."""
    return facts if len(facts) <= most else facts[some_rows(len(facts), most)]


def some_rows(count: int, most: int) -> Ints:
    """All of so many rows, or as many as allowed, drawn with a fixed seed and kept in order."""
    if count <= most:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, most, replace=False))


# Who ------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WhoCases:
    """Candidates of both questions of facts, best first: (2 · facts, k), and by question: group and fact."""

    raw: Floats
    right: Bools
    there: Bools  # a small KB may have fewer than k candidates
    group: Ints
    fact: Ints


def at_an_instant(facts: Facts, first: int, last: int) -> Facts:
    """The facts as people ask for them: at one instant of their span, drawn with a fixed seed.

    Open ends run to the instants `first` and `last`.
    """
    begin, end = (np.clip(np.asarray(side, np.int64), first, last) for side in facts.span)
    instant = begin + (np.random.default_rng(0).random(len(facts)) * (end - begin + 1)).astype(np.int64)
    return Facts(facts.s, facts.r, facts.o, *2 * [instant.astype(np.int32)])


def who_cases(who: Ranker, facts: Facts, true: Facts, first: int, last: int, *, at_a_time: bool = False) -> WhoCases:
    """Ask both questions of each fact; what is known is left out, what `true` says for the time of a question is right.

    Open ends run to the instants `first` and `last`. `at_a_time`: the dates are a time at which the fact held.
    """
    truth = KnownAnswers(true)
    raws, rights, theres, groups = [], [], [], []
    for direction in DIRECTIONS:
        questions = EntityQueries.of(facts, direction, first, last)
        questions = replace(questions, at_a_time=np.full(len(questions), at_a_time))
        found = who.rank(questions, TOP, hide_known=True)
        cell = np.arange(len(facts))[:, None] * who.entities + found.entity
        right = np.zeros(cell.shape, np.bool_)
        for part, query, fact, meets in truth.by_parts(questions):
            said = (part.start + query[meets]) * who.entities + truth.answers(direction)[fact[meets]]
            right[part] = np.isin(cell[part], said)
        raws.append(found.raw)
        theres.append(found.entity >= 0)
        rights.append(right & theres[-1])
        groups.append(group(questions.r, direction))
    raw, right, there = np.concatenate(raws), np.concatenate(rights), np.concatenate(theres)
    return WhoCases(raw, right, there, np.concatenate(groups), np.tile(np.arange(len(facts)), 2))


def _fit_who(run: TrainedRun, facts: Facts) -> dict[str, Any]:
    who = EntityRanker(run, run.kb.train)
    cases = who_cases(who, facts, run.kb.valid, run.timeline.first, run.timeline.last)
    found, measured = fit_rank_map(cases, len(facts), len(run.kb.relations))
    return {"who": found, "who_facts": len(facts), "measured": measured}


def fit_rank_map(cases: WhoCases, facts: int, relations: int) -> tuple[CalibrationMap, dict[str, dict[str, float]]]:
    """From raw probabilities of candidates to calibrated ones, by the cases of so many facts; and how good it is."""
    there = cases.there
    raw, right = cases.raw[there], cases.right[there]
    fold = calibration_maps.folds(facts)[cases.fact]
    groups, folds = (np.broadcast_to(column[:, None], there.shape)[there] for column in (cases.group, fold))
    found, crossed = calibration_maps.choose(raw, right, groups, folds, 2 * relations)
    first = np.zeros(there.shape, np.bool_)
    first[:, 0] = True
    first = first[there]
    measured = {
        "rank@1": before_and_after(raw[first], crossed[first], right[first]),
        "top 10": before_and_after(raw, crossed, right),
    }
    return found, measured


# When -----------------------------------------------------------------------------------------------------------------


def _fit_when(run: TrainedRun, facts: Facts, step: Callable[[], None]) -> dict[str, Any]:
    closed = both_ends_known(facts)
    half = np.random.default_rng(0).permutation(np.arange(len(closed)) % 2)
    plain = Dating(run)
    judged = {
        (weighed, name): predicted
        for weighed in (False, True)
        for name, predicted in _predicted(plain, closed, half, weighed, step).items()
    }
    quality = {choice: float(aeiou(closed.span, found.span).mean()) for choice, found in judged.items()}
    weighed, best = max(quality, key=quality.__getitem__)
    found, r = judged[weighed, best], np.asarray(closed.r, np.int64)
    right = (found.begin <= closed.end) & (found.end >= closed.begin)
    overlaps, crossed = calibration_maps.choose(
        found.mass, right, r, calibration_maps.folds(len(closed)), len(run.kb.relations)
    )
    dating = plain.weighed(fit_weights(run, closed)) if weighed else plain
    step()
    theta: tuple[float, ...] = ()
    if best in RULES:
        chosen = ways_to_decode(run.kb, _said(dating, closed), durations=plain.durations)[best]
        theta = tuple(chosen.theta.tolist()) if isinstance(chosen, Thresholds) else ()
    step()
    shape, level, measured = _fit_interval(dating, facts)
    step()
    way = SpanDecoding(
        weights=dating.scorer.weights,
        decoder=best,
        theta=theta,
        overlaps=overlaps,
        shape=shape,
        level=level,
    )
    return {
        "when": way,
        "when_facts": len(closed),
        "measured": {
            "span overlaps gold": before_and_after(found.mass, crossed, right),
            "aeiou": {f"{name}, weighted" if weighed else name: value for (weighed, name), value in quality.items()},
            "interval": measured,
        },
    }


def _said(dating: Dating, closed: Facts) -> DevValues:
    """What facts with both ends say of thresholds."""
    return dev_values(dating.scorer, closed, dating.run.timeline, device=dating.device)


@dataclass(frozen=True)
class _Predicted:
    """A span for each fact, and the probability that the model gives it: (n,) each."""

    begin: Ints
    end: Ints
    mass: Floats

    @property
    def span(self) -> tuple[Ints, Ints]:
        return self.begin, self.end


def _predicted(
    plain: Dating, closed: Facts, half: Ints, weighed: bool, step: Callable[[], None]
) -> dict[str, _Predicted]:
    """The span of each fact by every decoder; weights and thresholds are those of the other half."""
    run, found = plain.run, dict[str, _Predicted]()
    for side in (0, 1):
        others = closed[half != side]
        dating = plain.weighed(fit_weights(run, others)) if weighed else plain
        said = _said(dating, others)
        step()
        where = np.flatnonzero(half == side)
        mine = closed[where]
        s, r, o = (np.asarray(column, np.int64) for column in (mine.s, mine.r, mine.o))
        ways = ways_to_decode(run.kb, said, durations=plain.durations)
        for part, table in dating.blocks(s, r, o):
            for name, decoder in ways.items():
                whole = found.setdefault(name, _Predicted(*(np.empty(len(half), kind) for kind in (int, int, float))))
                span = dating.spans(table, r[part], decoder)
                whole.begin[where[part]], whole.end[where[part]] = span
                whole.mass[where[part]] = held(table, run.timeline.positions(span))
        step()
    return found


def _fit_interval(dating: Dating, facts: Facts) -> tuple[when.Shape, float, dict[str, float]]:
    """The shape with the smaller intervals (geometric mean of their widths), its level, and how it does."""
    begun = facts[~spans.is_open(facts.span)[0]]
    s, r, o = (np.asarray(column, np.int64) for column in (begun.s, begun.r, begun.o))
    position = np.searchsorted(dating.run.timeline.instants, begun.begin)
    half = np.random.default_rng(0).permutation(np.arange(len(begun)) % 2)
    levels = {shape: np.empty(len(begun)) for shape in when.SHAPES}
    tables = [(part, dating.begins.probabilities(table, r[part])) for part, table in dating.blocks(s, r, o)]
    for part, begins in tables:
        for shape, values in levels.items():
            values[part] = when.needed(shape, begins, position[part])
    crossed = {
        shape: np.array([when.conformal_level(values[half != side]) for side in (0, 1)])[half]
        for shape, values in levels.items()
    }
    instants = dating.run.timeline.instants
    figures = {shape: _coverage(tables, instants, position, shape, crossed[shape]) for shape in levels}
    best = min(when.SHAPES, key=lambda shape: figures[shape]["width"])
    return best, when.conformal_level(levels[best]), figures[best]


def _coverage(
    tables: Sequence[tuple[slice, Floats]], instants: Ints, position: Ints, shape: when.Shape, level: Floats
) -> dict[str, float]:
    """How often intervals at given levels, (n,), hold the begin, and the geometric mean of their widths.

    tables: Pr(b) of some facts at a time, (facts, instants) each.
    """
    inside, width = [], []
    for part, begins in tables:
        found = when.interval(shape, level[part], begins)
        inside.append(when.holds(found, position[part]))
        width.append(instants[found[1]] - instants[found[0]] + 1)
    return {
        "coverage": float(np.concatenate(inside).mean()),
        "width": float(np.exp(np.log(np.concatenate(width)).mean())),
        "cases": float(len(position)),
    }


FORMAT = 4

Fitted = TypeVar("Fitted", bound=BaseModel)


class _File(Record):
    run: str
    sha256: str
    fitted: Table


def load_or_fit(
    run: TrainedRun, file: str, kind: type[Fitted], fit: Callable[[], Fitted], fits: Callable[[Fitted], bool]
) -> Fitted:
    """What was fitted for a run: the one that is kept in that file, or else a new one, which is kept if it can be.

    `fits` says whether one can be used with this run.
    """
    mark = fingerprint(run)
    found = _read(run.path, file, mark, kind)
    if found is not None and fits(found):
        return found
    fitted = fit()
    values = fitted.model_dump(mode="json")
    written = {"run": mark, "sha256": _digest(values), "fitted": values}
    with suppress(InputError):
        write_whole(run.path / file, to_json(written, indent=1).encode())
    return fitted


def fingerprint(run: TrainedRun) -> str:
    """What such a fit depends on: the run's files, by its manifests, and which of its gadgets are asked."""
    digest = hashlib.sha256(f"{FORMAT} {sorted(run.gadgets)} ".encode())
    for manifest in (MANIFEST, f"kb/{MANIFEST}"):
        digest.update(read(run.path, manifest))
    return digest.hexdigest()


def _read(folder: Path, file: str, mark: str, kind: type[Fitted]) -> Fitted | None:
    """What is kept, or None if it cannot be used."""
    if not os.path.lexists(folder / file):
        return None
    try:
        found = read_json(folder, file, _File)
        if found.run != mark or found.sha256 != _digest(found.fitted):
            return None
        return kind.model_validate_json(to_json(found.fitted))
    except (TimeplexError, ValidationError):
        return None


def _digest(values: object) -> str:
    return hashlib.sha256(to_json(values, sort_keys=True).encode()).hexdigest()
