"""When facts held: a model of dates, probabilities that come true, and the facts that speak for a date."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat

from timeplex.answers import calibration_maps
from timeplex.answers.calibration_maps import CalibrationMap, before_and_after
from timeplex.answers.kept import Keeper, Numbers
from timeplex.answers.resolve import SpanPrediction
from timeplex.kb.facts import TemporalKB
from timeplex.kb.split import split_randomly
from timeplex.patterns.base import SIDES, Because, Evidence, Side, TimeQueries
from timeplex.patterns.dating import DateModel, Fitted, Weights
from timeplex.patterns.relation_classes import INSTANTS_A_YEAR
from timeplex.text import Describer, length
from timeplex.typing import Floats, Ints, Progress

COVERAGE = 0.8
"""The share of cases in which the interval holds the begin, at least."""
LEAST_CASES = 20
"""With fewer dev facts nothing is calibrated."""
LEAST_FACTS = 20
"""A KB with fewer facts has no dev facts taken out."""
NARROW_YEARS = 40
"""A range of usual gaps is told if it is no wider, nor a quarter of all time that the KB tells of."""
OFTEN = 0.15
"""A gap that so large a share of all cases has is told as a habit; else the usual range is."""
PARTS = ("shared", "own", "scale")
"""What weights have."""
TINY = 1e-6
"""No feature is divided by less."""
WEAK = 0.1
"""Reasons that are weaker than this share of the strongest are not told."""


class DatesState(BaseModel):
    """What is kept of `Dates` beside its weights: the features that they are of, and what dev said."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    begin: tuple[str, ...]
    end: tuple[str, ...]
    overlaps: CalibrationMap
    level: FiniteFloat = Field(ge=0, le=1)
    cases: int = Field(ge=0)
    measured: dict[str, dict[str, FiniteFloat]]


@dataclass(frozen=True, eq=False)
class Dates:
    """When facts held: a model of dates, and what dev says of its probabilities and intervals."""

    model: DateModel
    overlaps: CalibrationMap
    level: float
    cases: int
    measured: dict[str, dict[str, float]]

    @classmethod
    def learn(cls, kb: TemporalKB, on_progress: Progress | None = None) -> "Dates":
        """Learn weights on train, calibrate on dev, and take all facts as evidence."""
        judged = with_dev(kb)
        model = DateModel.fit(Evidence.of(judged), on_progress=on_progress)
        overlaps, level, cases = CalibrationMap(), COVERAGE, judged.valid[judged.valid.closed]
        measured: dict[str, dict[str, float]] = {}
        if len(cases) >= LEAST_CASES:
            queries, relations = TimeQueries.of(cases), len(kb.relations)
            truth = cases.begin.astype(np.int64)
            begin, end, raw, needed = _predicted(
                model, queries, lambda axis, begins, at: _needed(axis, begins, truth[at])
            )
            right = (begin <= cases.end) & (end >= cases.begin)
            fold = calibration_maps.folds(len(cases))
            overlaps, crossed = calibration_maps.choose(raw, right, queries.r, fold, relations)
            measured = {"span overlaps gold": before_and_after(raw, crossed, right)}
            level = max(COVERAGE, _conformal_level(needed[:, 0]))  # less, by easy cases, would fail the hard ones
        everything = Evidence.of(kb, kb.facts)
        cases_seen = len(cases) if len(cases) >= LEAST_CASES else 0
        return cls(DateModel(everything, Fitted.of(everything), model.weights), overlaps, level, cases_seen, measured)

    def keep(self, keeper: Keeper) -> None:
        """Keep what was learned."""
        state = DatesState(
            begin=tuple(self.model.fitted.names("begin")),
            end=tuple(self.model.fitted.names("end")),
            overlaps=self.overlaps,
            level=self.level,
            cases=self.cases,
            measured=self.measured,
        )
        parts = {(side, part): getattr(self.model.weights[side], part) for side in SIDES for part in PARTS}
        keeper.keep("dates", state, {f"{side}_{part}": each for (side, part), each in parts.items()})

    @classmethod
    def restored(cls, kb: TemporalKB, keeper: Keeper) -> "Dates | None":
        """What is kept, with patterns fitted anew; None if nothing is that can be used."""

        def build(state: DatesState, numbers: Numbers) -> "Dates | None":
            everything, relations = Evidence.of(kb, kb.facts), len(kb.relations)
            fitted = Fitted.of(everything)
            names = {side: fitted.names(side) for side in SIDES}
            if (list(state.begin), list(state.end)) != (names["begin"], names["end"]):
                return None
            shapes: dict[str, tuple[int, ...]] = {}
            for side in SIDES:
                width = len(names[side])
                shapes |= {f"{side}_shared": (width,), f"{side}_own": (relations, width), f"{side}_scale": (width,)}
            found = numbers.of(**shapes)
            if not state.overlaps.fits(relations) or any((found[f"{side}_scale"] <= TINY).any() for side in SIDES):
                return None
            weights = {side: Weights(*(found[f"{side}_{part}"] for part in PARTS)) for side in SIDES}
            model = DateModel(everything, fitted, weights)
            return cls(model, state.overlaps, state.level, state.cases, state.measured)

        return keeper.restored("dates", DatesState, build)

    def predict(self, queries: TimeQueries) -> SpanPrediction:
        """The span with the best expected aeIOU, its probability, and the interval of the begin."""
        begin, end, raw, edges = _predicted(
            self.model, queries, lambda axis, begins, at: _central(axis, begins, self.level)
        )
        low, high = edges.astype(np.int64).T
        probability = self.overlaps(raw, queries.r)
        return SpanPrediction(begin, end, probability, np.minimum(low, begin), np.maximum(high, begin))


def with_dev(kb: TemporalKB) -> TemporalKB:
    """The KB with dev facts, drawn at random if it has none and is not tiny."""
    return kb if len(kb.valid) or len(kb) < LEAST_FACTS else split_randomly(kb, valid=0.1, test=0.0, seed=0)


Look = Callable[[Ints, Floats, slice], Floats]
"""look(instants, Pr(begin), which queries): what is wanted of some queries, two columns; the first two are (n, m)."""


def _predicted(model: DateModel, queries: TimeQueries, look: Look) -> tuple[Ints, Ints, Floats, Floats]:
    """The best spans, the probability that each overlaps the true one, (n,) each; and what `look` says, (n, 2)."""
    raw, seen = np.empty(len(queries)), np.empty((len(queries), 2))
    begin, end = np.empty(len(queries), np.int64), np.empty(len(queries), np.int64)
    for start in range(0, len(queries), 64):
        part = slice(start, min(start + 64, len(queries)))
        here = model.focus(queries[part])
        begins = model.begins(here)
        places, likely, ends = model.joint(here, begins)
        begin[part], end[part] = (side[:, 0] for side in model.best(here, places, likely, ends))
        axis = np.broadcast_to(here.instants(model.evidence), begins.shape)
        from_ = np.take_along_axis(axis, places, 1)
        reaches = (ends * (axis >= begin[part, None])[:, None]).sum(2) * (from_ <= end[part, None])
        raw[part] = (reaches * likely).sum(1) / np.maximum(likely.sum(1), 1e-300)
        seen[part] = look(axis, begins, part)
    return begin, end, np.clip(raw, 0.0, 1.0), seen


def _central(axis: Ints, begins: Floats, level: float) -> Floats:
    """First and last instant of the central interval that holds the level of Pr(begin): (n, 2)."""
    up_to, tail = np.cumsum(begins, axis=1), (1 - level) / 2
    places = np.stack([(up_to < tail).sum(1), (up_to < 1 - tail).sum(1)], 1)
    return np.take_along_axis(axis, np.minimum(places, begins.shape[1] - 1), 1).astype(float)


def _needed(axis: Ints, begins: Floats, truth: Ints) -> Floats:
    """The level from which on the central interval holds the truth, (n,), twice."""
    place = np.minimum((axis < truth[:, None]).sum(1), axis.shape[1] - 1)
    up_to, rows = np.cumsum(begins, axis=1), np.arange(len(begins))
    before = np.where(place > 0, up_to[rows, place - 1], 0.0)
    needed = np.maximum(1 - 2 * np.minimum(up_to[rows, place], 1 - before), 0.0)
    return np.stack([needed, needed], 1)


def _conformal_level(needed: Floats) -> float:
    """The level that is enough for ⌈(n + 1) · 80 %⌉ of n cases; 1, all there is, if n is too small."""
    nth = int(np.ceil((len(needed) + 1) * COVERAGE))
    return float(np.sort(needed)[nth - 1]) if nth <= len(needed) else 1.0


def reasons(
    kb: TemporalKB,
    model: DateModel,
    query: TimeQueries,
    at: int,
    window: Ints,
    limit: int,
    about: int | None = None,
    side: Side = "begin",
) -> list[str]:
    """The sentences of `evidence_for`, strongest first."""
    return list(evidence_for(kb, model, query, at, window, limit, about, side).values())


def evidence_for(
    kb: TemporalKB,
    model: DateModel,
    query: TimeQueries,
    at: int,
    window: Ints,
    limit: int,
    about: int | None = None,
    side: Side = "begin",
) -> dict[int, str]:
    """The facts that speak for a begin (or an end) rather than for the other instants of the window, in sentences.

    They go by their rows in the evidence. The strongest comes first. What counts is by how much a fact's share of the
    score is above its mean in the window. `about` names an entity if only its own facts are wanted.
    """
    evidence, weights = model.evidence, model.weights[side].of(query.r)[0].astype(float)
    instants = np.unique(np.append(window, at))
    query = replace(query, axis=instants[None], width=np.ones((1, len(instants)), np.int64))
    here = int(np.searchsorted(instants, at))
    elsewhere = [place for place in range(len(instants)) if place != here]
    describe, found, first = Describer(kb, evidence.facts), [], 0
    for pattern in model.fitted.patterns:
        of = weights[first : first + len(pattern.year_features)]
        first += len(pattern.year_features)
        usual: dict[tuple[int, str], float] = {}
        for place in elsewhere:
            for why in pattern.because(query, side, place):
                key = why.row, why.anchor
                usual[key] = usual.get(key, 0.0) + float(why.values @ of) / len(elsewhere)
        for why in pattern.because(query, side, here):
            value = float(why.values @ of) - usual.get((why.row, why.anchor), 0.0)
            found.append((value, pattern.name, why))
    mine = (each for each in found if each[2].row >= 0 and about in (None, int(evidence.x[each[2].row])))
    best = sorted(mine, key=lambda each: -each[0])
    told: dict[int, str] = {}
    for value, name, why in best:
        row = why.row % len(evidence)
        if (
            value > max(0.0, WEAK * best[0][0])
            and row not in told
            and len(told) < limit
            and _telling(evidence, name, why, side)
        ):
            told[row] = _sentence(describe, name, why, int(query.r[0]), row, side)
    return told


def _telling(evidence: Evidence, name: str, why: Because, side: Side) -> bool:
    """Whether a person would take it for a reason: a habit, a narrow range, or one that follows on another."""
    if name == "slots":
        return why.gap == 0 and why.anchor != side
    narrow = min(NARROW_YEARS * INSTANTS_A_YEAR[evidence.granularity], (evidence.last - evidence.first) / 4)
    return _is_habit(why) or (why.cases > 0 and why.high - why.low <= narrow)


def _is_habit(why: Because) -> bool:
    return why.holds >= max(OFTEN * why.cases, 2)


def _sentence(describe: Describer, name: str, why: Because, r: int, row: int, side: Side) -> str:
    """`Helmut Schmidt headOfGovernment Germany ended 1982; the next one begins the same year in 43 of 51 cases`."""
    kb, facts = describe.kb, describe.facts
    unit = kb.granularity.value
    date = facts.end[row] if why.anchor == "end" else facts.begin[row]
    is_event = facts.begin[row] == facts.end[row]
    word = describe.at if is_event else "ended" if why.anchor == "end" else "began"
    fact = f"{describe.triple(row)} {word} "
    fact += describe.date(date)
    what = describe.relation(r)
    if name == "slots":
        return f"{fact}, and {what} follows on" if side == "begin" else f"{fact}, so that {what} ends"
    when = (
        f"the same {unit}" if why.gap == 0 else f"{length(abs(why.gap), unit)} {'later' if why.gap > 0 else 'earlier'}"
    )
    if side == "end":
        what = f"the end of {what}"
    elif name == "successions" and why.gap >= 0:
        what = f"the next {what}"
    if _is_habit(why):
        return f"{fact}; {what} is {when} in {why.holds:,} of {why.cases:,} cases"
    return f"{fact}; {what} is usually {_range(why.low, why.high, unit)} ({why.cases:,} cases)"


def _range(low: int, high: int, unit: str) -> str:
    """`3 to 10 years later`, `2 years earlier to 5 years later`."""
    if low == high == 0:
        return f"the same {unit}"
    if low >= 0:
        return f"{low:,} to {length(high, unit)} later"
    if high <= 0:
        return f"{-high:,} to {length(-low, unit)} earlier"
    return f"from {length(-low, unit)} earlier to {length(high, unit)} later"
