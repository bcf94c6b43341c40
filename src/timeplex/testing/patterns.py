"""The laws that every pattern keeps, as functions: the tests run them, and `check_pattern` runs them for anyone.

A law takes a `Case` (a pattern class, small random evidence with all that is awkward, questions about it) and raises
`Broken` with what differs.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from timeplex.kb import spans
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Facts
from timeplex.patterns.base import SIDES, Because, Evidence, LinkQueries, Pattern, TimeQueries, axis_of
from timeplex.testing.models import Result, require, result_of

STEPS = {Granularity.YEAR: (1, 12), Granularity.MONTH: (1, 40), Granularity.DAY: (1, 31, 365)}
FIRST, LAST = 1900, 12_000
TOLERANCE = 1e-4
PLACES = 3
"""So many instants of an axis are explained."""

Rows = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Sizes:
    """How large a case is."""

    entities: int = 5
    relations: int = 2
    facts: int = 12
    queries: int = 4

    @classmethod
    def drawn(cls, draw: random.Random) -> "Sizes":
        """From next to nothing to as large as a case needs to be."""
        return cls(draw.randint(2, 6), draw.randint(1, 3), draw.randint(0, 16), draw.randint(1, 5))


class Case:
    """Evidence and questions of both kinds, all from the sizes and a seed; `own` names facts that questions are of."""

    def __init__(self, kind: type[Pattern], sizes: Sizes, seed: int) -> None:
        self.kind, self.sizes, self.seed = kind, sizes, seed
        self.random = random.Random(seed)  # noqa: S311 - for examples
        self.granularity = self.random.choice(list(STEPS))
        facts = Facts(*np.array([self._fact() for _ in range(sizes.facts)], np.int64).reshape(-1, 5).T)
        self.evidence = self.on(facts)
        self.times, self.links = self._times(), self._links()

    def __repr__(self) -> str:
        return (
            f"Case(seed={self.seed}, {self.sizes}, {self.granularity.value}, facts={list(self.evidence.facts)}, "
            f"times={_columns(self.times)}, links={_columns(self.links)})"
        )

    def on(self, facts: Facts) -> Evidence:
        """These facts as evidence."""
        axis = axis_of(facts, self.granularity)
        return Evidence(facts, self.sizes.entities, self.sizes.relations, FIRST, LAST, self.granularity, *axis)

    def _span(self) -> tuple[int, int]:
        step = STEPS[self.granularity]
        begin = 1990 + self.random.randint(0, 12) * self.random.choice(step)
        end = begin + self.random.choice((0, 0, 1, 2, 5, -1)) * self.random.choice(step)
        open_begin, open_end = self.random.random() < 0.2, self.random.random() < 0.2
        return spans.OPEN_BEGIN if open_begin else begin, spans.OPEN_END if open_end else end

    def _fact(self) -> tuple[int, int, int, int, int]:
        entities, draw = self.sizes.entities, self.random.randrange
        return draw(entities), draw(self.sizes.relations), draw(entities), *self._span()

    def _own(self) -> int:
        return self.random.randrange(-1, len(self.evidence)) if len(self.evidence) else -1

    def _times(self) -> TimeQueries:
        asked = []
        for _ in range(self.sizes.queries):
            own = self._own()
            fact = self._fact() if own < 0 else tuple(int(each[own]) for each in self.evidence.facts.columns)
            asked.append((*fact[:3], own))
        queries = TimeQueries(*np.array(asked, np.int64).T)
        if self.random.random() < 0.5:
            return queries
        size = self.random.randint(1, 6)
        axis = np.array([sorted(self.random.sample(range(1980, 2040), size)) for _ in asked])
        return replace(queries, axis=axis, width=np.ones_like(axis))

    def _links(self) -> LinkQueries:
        asked, relations = [], self.sizes.relations
        for _ in range(self.sizes.queries):
            own, inverse = self._own(), self.random.random() < 0.5
            s, r, o, begin, end = self._fact() if own < 0 else (int(each[own]) for each in self.evidence.facts.columns)
            asked.append((o if inverse else s, r + relations * inverse, begin, end, own))
        return LinkQueries(*np.array(asked, np.int64).T)

    def answers(self, evidence: Evidence | None = None, counted: NDArray[np.bool_] | None = None) -> Rows:
        """All that the pattern says, fitted on this evidence."""
        return self.said(self._fitted(evidence, counted))

    def _fitted(self, evidence: Evidence | None = None, counted: NDArray[np.bool_] | None = None) -> Pattern:
        evidence = self.evidence if evidence is None else evidence
        return self.kind(evidence) if counted is None else self.kind(evidence, counted)

    def said(self, pattern: Pattern, times: TimeQueries | None = None, links: LinkQueries | None = None) -> Rows:
        """The rows for these questions, or those of the case."""
        times, links = self.times if times is None else times, self.links if links is None else links
        found: Rows = {}
        if self.kind.year_features:
            found |= {f"years of the {side}": pattern.years(times, side) for side in SIDES}
        if self.kind.candidate_features:
            found["candidates"] = pattern.candidates(links)
        return found


Law = Callable[[Case], None]


def _columns(queries: TimeQueries | LinkQueries) -> list[tuple[int, ...]]:
    names = ("s", "r", "o", "own") if isinstance(queries, TimeQueries) else ("x", "r", "begin", "end", "own")
    return list(zip(*(getattr(queries, name).tolist() for name in names), strict=True))


def _close(found: Rows, expected: Rows, what: str) -> None:
    for name, rows in expected.items():
        require(found[name].shape == rows.shape, f"{name}, {what}: shape {found[name].shape} instead of {rows.shape}")
        apart = np.abs(found[name].astype(float) - rows) - TOLERANCE * np.maximum(np.abs(rows), 1)
        require(bool((apart <= 0).all()), f"{name}, {what}: differs by {np.abs(found[name] - rows).max(initial=0):g}")


def _same(found: Rows, expected: Rows, what: str) -> None:
    for name, rows in expected.items():
        require(np.array_equal(found[name], rows), f"{name}, {what}: not the same")


def shapes(case: Case) -> None:
    """A row of finite numbers, float32, for every feature and instant or entity."""
    require(bool(case.kind.year_features or case.kind.candidate_features), "it names no feature")
    for name, rows in case.answers().items():
        of_years = name != "candidates"
        features = case.kind.year_features if of_years else case.kind.candidate_features
        width = case.times.instants(case.evidence).shape[1] if of_years else case.sizes.entities
        expected = (case.sizes.queries, len(features), width)
        require(rows.shape == expected, f"{name}: shape {rows.shape} instead of {expected}")
        require(rows.dtype == np.float32, f"{name}: {rows.dtype} instead of float32")
        require(bool(np.isfinite(rows).all()), f"{name} are not finite")


def silence(case: Case) -> None:
    """Without any fact there is nothing to say: 0 everywhere, but for x itself as an answer."""
    none = np.full(case.sizes.queries, -1)
    evidence = replace(case.evidence, facts=Facts.empty())
    found = case.said(case.kind(evidence), replace(case.times, own=none), replace(case.links, own=none))
    if "candidates" in found:
        found["candidates"] = found["candidates"].copy()
        found["candidates"][np.arange(len(case.links)), :, case.links.x] = 0
    for name, rows in found.items():
        require(float(np.abs(rows).max(initial=0)) < TOLERANCE, f"{name} are not 0 without evidence")


def order(case: Case) -> None:
    """The order of the facts does not matter."""
    shuffled = case.random.sample(range(len(case.evidence)), len(case.evidence))
    place = np.append(np.argsort(shuffled), -1).astype(np.int64)
    times = replace(case.times, own=place[case.times.own])
    links = replace(case.links, own=place[case.links.own])
    moved = replace(case.evidence, facts=case.evidence.facts[np.array(shuffled, np.int64)])
    _close(case.said(case.kind(moved), times, links), case.answers(), "with the facts in another order")


def numbers(case: Case) -> None:
    """With other numbers for entities and relations, it says the same of the same."""
    entity = np.array(case.random.sample(range(case.sizes.entities), case.sizes.entities))
    relation = np.array(case.random.sample(range(case.sizes.relations), case.sizes.relations))
    directed = np.concatenate([relation, relation + case.sizes.relations])
    facts, times, links = case.evidence.facts, case.times, case.links
    renamed = Facts(entity[facts.s], relation[facts.r], entity[facts.o], facts.begin, facts.end)
    found = case.said(
        case.kind(replace(case.evidence, facts=renamed)),
        replace(times, s=entity[times.s], r=relation[times.r], o=entity[times.o]),
        replace(links, x=entity[links.x], r=directed[links.r]),
    )
    if "candidates" in found:
        found["candidates"] = found["candidates"][:, :, entity]
    _close(found, case.answers(), "with other numbers")


def alone(case: Case) -> None:
    """A question gets the same answer alone as among others, and again; asking changes nothing."""
    columns: list[NDArray[Any]] = [*case.evidence.facts.columns, case.evidence.axis, case.times.s, case.links.x]
    before = [column.copy() for column in columns]
    pattern = case.kind(case.evidence)
    together = case.said(pattern)
    kept = {name: rows.copy() for name, rows in together.items()}
    for row in range(case.sizes.queries):
        one = slice(row, row + 1)
        expected = {name: rows[one] for name, rows in together.items()}
        _same(case.said(pattern, case.times[one], case.links[one]), expected, "asked alone")
    _same(case.said(pattern), kept, "asked again")
    _same(together, kept, "after it was asked again")
    for column, copy in zip(columns, before, strict=True):
        require(np.array_equal(column, copy), "asking changes what it was given")


def itself(case: Case) -> None:
    """A fact does not vouch for itself: planted as `own`, and not counted, all is as if it was not there.

    Candidates of a pattern that says it `counts_own` are not compared.
    """
    for row in range(case.sizes.queries):
        for kind, owns in (("years", case.times.own), ("candidates", case.links.own)):
            own = int(owns[row])
            if own < 0 or (kind == "candidates" and case.kind.counts_own):
                continue
            planted = np.arange(len(case.evidence)) == own
            times, links = case.times[row : row + 1], case.links[row : row + 1]
            nobody = np.array([-1])
            counts = ~planted if kind == "years" and case.kind.year_features else None
            found = case.said(case._fitted(None, counts), times, links)
            expected = case.said(
                case.kind(case.evidence.without(planted)), replace(times, own=nobody), replace(links, own=nobody)
            )
            expected = {name: rows for name, rows in expected.items() if name.startswith(kind)}
            _close(found, expected, "with the fact itself")


def reasons(case: Case) -> None:
    """Reasons for a year sum to the features there, and name facts of the evidence that are not the question's own."""
    if not case.kind.year_features:
        return
    pattern, facts = case.kind(case.evidence), max(len(case.evidence), 1)
    for side in SIDES:
        rows = pattern.years(case.times, side)
        for row in range(case.sizes.queries):
            for at in {case.random.randrange(rows.shape[2]) for _ in range(PLACES)}:
                told: list[Because] = pattern.because(case.times[row : row + 1], side, at)
                total = np.sum([why.values for why in told], axis=0) if told else np.zeros(rows.shape[1])
                expected = {"reasons": rows[row, :, at]}
                _close({"reasons": np.asarray(total)}, expected, f"summed for the {side}")
                for why in told:
                    require(-1 <= why.row < 2 * facts, f"a reason names row {why.row}")
                    mine = why.row >= 0 and why.row % facts == case.times.own[row]
                    require(not mine, "the fact is a reason for itself")


def points(case: Case) -> None:
    """What it points at are instants of the questions, each with a strength above 0."""
    if not case.kind.year_features:
        return
    pattern = case.kind(case.evidence)
    for side in SIDES:
        place, at, strength = pattern.points(case.times, side)
        require(place.shape == at.shape == strength.shape, "points: three columns of different lengths")
        require(bool(((place >= 0) & (place < len(case.times))).all()), "it points at an instant of no question")
        require(bool((np.isfinite(strength) & (strength > 0)).all()), "the strength of a point is not above 0")
        require(bool((np.abs(at) < spans.OPEN_END).all()), "it points at an open end")


LAWS: dict[str, Law] = {law.__name__: law for law in (shapes, silence, order, numbers, alone, itself, reasons, points)}


def check_pattern(pattern: type[Pattern], examples: int = 25, seed: int = 0) -> list[Result]:
    """Try every law on random examples; a result a law, with what was wrong if it was broken.

    >>> from timeplex.patterns.base import PATTERNS
    >>> import timeplex.patterns.dating
    >>> all(result.passed for result in check_pattern(PATTERNS["lifespans"], examples=4))
    True
    """
    draw = random.Random(seed)  # noqa: S311 - for examples
    cases = [Case(pattern, Sizes.drawn(draw), seed + number) for number in range(examples)]
    return [result_of(name, law, cases) for name, law in LAWS.items()]
