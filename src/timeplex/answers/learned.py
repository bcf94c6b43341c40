"""A KB that can be asked without training: what patterns show, learned from its facts in seconds.

>>> import timeplex
>>> known = timeplex.learn("sample")                                                        # doctest: +SKIP
>>> known.when("Helmut Kohl", "headOfGovernment", "Germany")                                # doctest: +SKIP

The weights of patterns are learned on train, and dev says how far probabilities can be believed; then the facts of all
splits are evidence, because what is known counts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np
import polars as pl
import torch

from timeplex.answers import calibration_maps
from timeplex.answers.calibration import WhoCases, fit_rank_map, group, who_cases
from timeplex.answers.calibration_maps import CalibrationMap
from timeplex.answers.explain import INSTANTS, WEAK
from timeplex.answers.rank import Coexistence, EntityQueries, Ranked, Ranker
from timeplex.answers.resolve import ANY_TIME, At, Resolver, SpanPrediction, rank_table, when_table
from timeplex.errors import InputError
from timeplex.evaluation.plots import Curve
from timeplex.kb import spans
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.kb.split import split_randomly
from timeplex.kb.timeline import Timeline
from timeplex.patterns.base import Because, Evidence, LinkQueries, TimeQueries
from timeplex.patterns.dating import DateModel, Fitted
from timeplex.patterns.ranking import Course, LinkModel
from timeplex.patterns.relation_classes import INSTANTS_A_YEAR
from timeplex.text import Describer, counted, length
from timeplex.typing import Floats, Ints, Progress

COVERAGE = 0.8
NARROW_YEARS = 40
"""A range of usual gaps is told if it is no wider, nor a quarter of all time that the KB tells of."""
LEAST_CASES = 20
"""With fewer dev facts nothing is calibrated."""
LEAST_FACTS = 20
LEAST_SHARE = 0.05
"""A pattern that changes a score by less is not told."""
MOST_DAYS = 100_000
"""A curve has every instant up to so many."""
OFTEN = 0.15
"""A gap that so large a share of all cases has is told as a habit; else the usual range is."""


@dataclass(frozen=True, eq=False)
class Dates:
    """When facts held: a model of dates, and what dev says of its probabilities and intervals."""

    model: DateModel
    overlaps: CalibrationMap
    level: float
    cases: int

    @classmethod
    def learn(cls, kb: TemporalKB, on_progress: Progress | None = None) -> "Dates":
        """Learn weights on train, calibrate on dev, and take all facts as evidence."""
        judged = _with_dev(kb)
        model = DateModel.fit(Evidence.of(judged), on_progress=on_progress)
        overlaps, level, cases = CalibrationMap(), COVERAGE, judged.valid[judged.valid.closed]
        if len(cases) >= LEAST_CASES:
            queries, relations = TimeQueries.of(cases), len(kb.relations)
            truth = cases.begin.astype(np.int64)
            begin, end, raw, needed = _predicted(
                model, queries, lambda axis, begins, at: _needed(axis, begins, truth[at])
            )
            right = (begin <= cases.end) & (end >= cases.begin)
            fold = calibration_maps.folds(len(cases))
            overlaps, _ = calibration_maps.choose(raw, right, queries.r, fold, relations)
            level = _conformal_level(needed[:, 0])
        everything = Evidence.of(kb, kb.facts)
        cases_seen = len(cases) if len(cases) >= LEAST_CASES else 0
        return cls(DateModel(everything, Fitted.of(everything), model.weights), overlaps, level, cases_seen)

    def predict(self, queries: TimeQueries) -> SpanPrediction:
        """The span with the best expected aeIOU, its probability, and the interval of the begin."""
        begin, end, raw, edges = _predicted(
            self.model, queries, lambda axis, begins, at: _central(axis, begins, self.level)
        )
        low, high = edges.astype(np.int64).T
        probability = self.overlaps(raw, queries.r)
        return SpanPrediction(begin, end, probability, np.minimum(low, begin), np.maximum(high, begin))


def _with_dev(kb: TemporalKB) -> TemporalKB:
    """The KB with dev facts, drawn at random if it has none and is not tiny."""
    return kb if len(kb.valid) or len(kb) < LEAST_FACTS else split_randomly(kb, valid=0.1, test=0.0, seed=0)


Look = Callable[[Ints, Floats, slice], Floats]
"""look(instants, Pr(begin), which queries): what is wanted of some queries, two columns; the first two are (n, m)."""


def _predicted(model: DateModel, queries: TimeQueries, look: Look) -> tuple[Ints, Ints, Floats, Floats]:
    """The best spans, the probability that each overlaps the true one, (n,) each; and what `look` says, (n, 2)."""
    raw, seen = np.empty(len(queries)), np.empty((len(queries), 2))
    begin, end = (side[:, 0] for side in model.spans(queries))
    for start in range(0, len(queries), 64):
        part = slice(start, min(start + 64, len(queries)))
        here = model.focus(queries[part])
        places, likely, ends = model.joint(here)
        begins = model.begins(here)
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


def reasons(kb: TemporalKB, model: DateModel, query: TimeQueries, begin: int, window: Ints, limit: int) -> list[str]:
    """The facts that speak for a begin rather than for the other instants of the window, in sentences, strongest first.

    What counts is by how much a fact's share of the score is above its mean in the window.
    """
    evidence, weights = model.evidence, model.weights["begin"].of(query.r)[0].astype(float)
    instants = np.unique(np.append(window, begin))
    query = replace(query, axis=instants[None], width=np.ones((1, len(instants)), np.int64))
    here = int(np.searchsorted(instants, begin))
    elsewhere = [place for place in range(len(instants)) if place != here]
    describe, found, first = Describer(kb, evidence.facts), [], 0
    for pattern in model.fitted.patterns:
        of = weights[first : first + len(pattern.year_features)]
        first += len(pattern.year_features)
        usual: dict[tuple[int, str], float] = {}
        for place in elsewhere:
            for why in pattern.because(query, "begin", place):
                key = why.row, why.anchor
                usual[key] = usual.get(key, 0.0) + float(why.values @ of) / len(elsewhere)
        for why in pattern.because(query, "begin", here):
            value = float(why.values @ of) - usual.get((why.row, why.anchor), 0.0)
            found.append((value, pattern.name, why))
    best = sorted((each for each in found if each[2].row >= 0), key=lambda each: -each[0])
    told: dict[int, str] = {}
    for value, name, why in best:
        row = why.row % len(evidence)
        if (
            value > max(0.0, WEAK * best[0][0])
            and row not in told
            and len(told) < limit
            and _telling(evidence, name, why)
        ):
            told[row] = _sentence(describe, name, why, int(query.r[0]), row)
    return list(told.values())


def _telling(evidence: Evidence, name: str, why: Because) -> bool:
    """Whether a person would take it for a reason: a habit, a narrow range, or one that follows on another."""
    if name == "slots":
        return why.gap == 0 and why.anchor == "end"
    narrow = min(NARROW_YEARS * INSTANTS_A_YEAR[evidence.granularity], (evidence.last - evidence.first) / 4)
    return _is_habit(why) or (why.cases > 0 and why.high - why.low <= narrow)


def _is_habit(why: Because) -> bool:
    return why.holds >= max(OFTEN * why.cases, 2)


def _sentence(describe: Describer, name: str, why: Because, r: int, row: int) -> str:
    """`Helmut Schmidt headOfGovernment Germany ended 1982; the next one begins the same year in 43 of 51 cases`."""
    kb, facts = describe.kb, describe.facts
    unit = kb.granularity.value
    date = facts.end[row] if why.anchor == "end" else facts.begin[row]
    is_event = facts.begin[row] == facts.end[row]
    fact = f"{describe.triple(row)} {'in' if is_event else 'ended' if why.anchor == 'end' else 'began'} "
    fact += describe.date(date)
    what = describe.relation(r)
    if name == "slots":
        return f"{fact}, and {what} follows on"
    when = (
        f"the same {unit}" if why.gap == 0 else f"{length(abs(why.gap), unit)} {'later' if why.gap > 0 else 'earlier'}"
    )
    what = f"the next {what}" if name == "successions" and why.gap >= 0 else what
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


class PatternRanker(Ranker):
    """Patterns as something that names candidates."""

    def __init__(self, model: LinkModel, known: Facts) -> None:
        evidence = model.evidence
        super().__init__(known, evidence.facts, evidence.entities, torch.device("cpu"))
        self.model = model

    def scores(self, questions: EntityQueries) -> torch.Tensor:
        """Scores of all entities, −∞ for those without a fact: (n, entities)."""
        rows = self.model.scores(self._asked(questions))
        return torch.from_numpy(rows.astype(np.float32)).index_fill_(1, self.unseen, -torch.inf)

    def shares(self, questions: EntityQueries) -> dict[str, Floats]:
        """What each pattern adds to the score of every entity, beyond what it adds to the average one with facts.

        One question; (entities,) each. Differences of their sums are differences of scores.
        """
        asked, seen = self._asked(questions), self.model.evidence.facts.mentioned(self.model.evidence.entities)
        added = self.model.rows(asked)[0] * self.model.weights.of(asked.r)[0][:, None]
        shares, first = {}, 0
        for pattern in self.model.patterns:
            last = first + len(pattern.candidate_features)
            total = added[first:last].sum(0)
            shares[pattern.name], first = total - total[seen].mean(), last
        return shares

    def _asked(self, questions: EntityQueries) -> LinkQueries:
        """With inverse relations, and without ends where they are those of all time: nothing is known of them."""
        evidence = self.model.evidence
        r = questions.r + (evidence.relations if questions.direction == "subject" else 0)
        begin = np.where(questions.begin <= evidence.first, spans.OPEN_BEGIN, questions.begin)
        end = np.where(questions.end >= evidence.last, spans.OPEN_END, questions.end)
        return LinkQueries(questions.given, r, begin, end)


@dataclass(frozen=True, eq=False)
class Links:
    """Who answers: a ranker, from its raw probabilities to calibrated ones, and how often answers have company."""

    who: PatternRanker
    probabilities: CalibrationMap
    company: Coexistence
    cases: int

    @classmethod
    def learn(cls, kb: TemporalKB, first: int, last: int, on_progress: Progress | None = None) -> "Links":
        """Learn weights on train and dev, calibrate on halves of dev by each other, and take all facts as evidence."""
        judged = _with_dev(kb)
        course, dev = Course(judged, on_progress=on_progress), judged.valid
        model, probabilities = course.model(trees=False), CalibrationMap()
        if len(dev) >= LEAST_CASES:
            half = np.arange(len(dev)) % 2 == 0
            parts = []
            for mine in (half, ~half):
                who = PatternRanker(course.model(~mine, trees=False), judged.train)
                parts.append(who_cases(who, dev[mine], dev, first, last))
            raw, right, there, groups = (
                np.concatenate([getattr(part, name) for part in parts]) for name in ("raw", "right", "there", "group")
            )
            fact = [np.flatnonzero(mine)[part.fact] for mine, part in zip((half, ~half), parts, strict=True)]
            together = WhoCases(raw, right, there, groups, np.concatenate(fact))
            probabilities, _ = fit_rank_map(together, len(dev), len(kb.relations))
        everything = LinkModel.from_state(*model.state(), Evidence.of(kb, kb.facts))
        company = Coexistence(kb.facts, len(kb.relations), first, last)
        cases = len(dev) if len(dev) >= LEAST_CASES else 0
        return cls(PatternRanker(everything, kb.facts), probabilities, company, cases)

    def rank(self, questions: EntityQueries, k: int, *, hide_known: bool) -> tuple[Ranked, Floats]:
        """The best candidates, and how likely each is right; what is stated for the time comes first, with no number.

        A KB is not asked how likely it is that what it states is true.
        """
        found = self.who.rank(questions, k, hide_known=True)
        probability = self.probabilities(found.raw, group(questions.r, questions.direction)[:, None])
        probability = probability * self.company.factor(questions, self.who.known)[:, None]
        if hide_known:
            return found, probability
        stated = self._stated(questions)
        entity = np.concatenate([stated, found.entity], 1)
        first = np.argsort(entity < 0, axis=1, kind="stable")[:, : found.entity.shape[1]]

        def best(of_stated: float, of_new: Floats) -> Floats:
            whole = np.concatenate([np.full(stated.shape, of_stated), of_new], 1)
            return np.take_along_axis(whole, first, 1)

        holds = first < stated.shape[1]
        chosen = np.take_along_axis(entity, first, 1)
        ranked = Ranked(chosen, best(np.inf, found.score), best(1.0, found.raw), holds & (chosen >= 0))
        return ranked, best(np.nan, probability)

    def _stated(self, questions: EntityQueries) -> Ints:
        """The answers that are known to hold at the time of each question, each once: (n, most), −1: no more."""
        query, fact, meets = self.who.known.of(questions)
        answer = self.who.known.answers(questions.direction)[fact[meets]]
        query, answer = np.unique(np.stack([query[meets], answer.astype(np.int64)]), axis=1)
        nth = np.arange(len(query)) - np.searchsorted(query, query)
        stated = np.full((len(questions), int(nth.max(initial=-1)) + 1), -1, np.int64)
        stated[query, nth] = answer
        return stated


class Learned:
    """A KB that can be asked. Names are ids or labels; `timeplex.learn` makes one."""

    def __init__(self, kb: TemporalKB, on_progress: Progress | None = None) -> None:
        self.kb, self._on_progress = kb, on_progress

    @cached_property
    def dates(self) -> Dates:
        """When facts held; learned on first use."""
        return Dates.learn(self.kb, self._on_progress)

    @cached_property
    def links(self) -> Links:
        """Who answers; learned on first use."""
        return Links.learn(self.kb, self.timeline.first, self.timeline.last, self._on_progress)

    def __repr__(self) -> str:
        return f"Learned({self.kb!r})"

    @cached_property
    def timeline(self) -> Timeline:
        """The instants that dates are looked for among."""
        return Timeline(Evidence.of(self.kb, self.kb.facts).axis, self.kb.granularity, "observed")

    @cached_property
    def asking(self) -> Resolver:
        """Names and dates as numbers; all facts are known."""
        return Resolver(self.kb, self.timeline, self.kb.facts)

    def triples(
        self, subject: str | Sequence[str], relation: str | Sequence[str], object: str | Sequence[str]
    ) -> tuple[Ints, Ints, Ints]:
        """What `when` is asked, as numbers: (n,) each."""
        return self.asking.triples(subject, relation, object)

    def rank(
        self,
        *,
        relation: str | Sequence[str],
        at: At | Sequence[At] = ANY_TIME,
        subject: str | Sequence[str] | None = None,
        object: str | Sequence[str] | None = None,
        k: int = 10,
        hide_known: bool = False,
    ) -> pl.DataFrame:
        """The likeliest objects of a subject, or subjects of an object, at a time: the columns of `Trained.rank`.

        What the KB states for that time comes first, and has no probability.
        """
        return self.ranked(
            self.asking.questions(relation=relation, at=at, subject=subject, object=object), k, hide_known
        )

    def ranked(self, questions: EntityQueries, k: int = 10, hide_known: bool = False) -> pl.DataFrame:
        """`rank` for questions as numbers."""
        if k < 1:
            raise InputError(f"{k} answers cannot be given.", "Let k be at least 1.")
        found, probability = self.links.rank(questions, k, hide_known=hide_known)
        table = rank_table(self.kb, self.links.who.known, questions, found, probability)
        return table.with_columns(pl.col("probability").fill_nan(None))

    def when(
        self, subject: str | Sequence[str], relation: str | Sequence[str], object: str | Sequence[str]
    ) -> pl.DataFrame:
        """When facts held, if they did: a row a fact, with the columns of `Trained.when`.

        What the KB states is in `known`; begin and end are then those of a further time.
        """
        s, r, o = self.triples(subject, relation, object)
        return when_table(self.kb, s, r, o, self.dates.predict(TimeQueries(s, r, o)))

    def curve(self, subject: str, relation: str, object: str) -> Curve:
        """Pr(t is in the span): how likely each instant belongs to the fact, in sum 1."""
        model = self.dates.model
        queries = model.focus(TimeQueries(*self.triples(subject, relation, object)))
        there = queries.widths(model.evidence)[0] > 0
        instants, likely = queries.instants(model.evidence)[0][there], model.instants(queries)[0][there]
        if queries.axis is not None and instants[-1] - instants[0] < MOST_DAYS:  # an axis of its own has gaps
            every = np.arange(instants[0], instants[-1] + 1)
            instants, likely = every, np.interp(every, instants, likely)
        return Curve(instants, likely / likely.sum(), self.kb.granularity)

    def dating_reasons(self, s: int, r: int, o: int, begin: int, window: tuple[int, int], limit: int) -> list[str]:
        """The facts that speak for a begin rather than for the other instants of a window, in sentences."""
        query = TimeQueries(*(np.array([number]) for number in (s, r, o)))
        others = np.unique(np.linspace(*window, INSTANTS).astype(int))
        return reasons(self.kb, self.dates.model, query, begin, others, limit)

    @property
    def company(self) -> Coexistence:
        """How often answers have company."""
        return self.links.company

    def ranking_reasons(self, asked: EntityQueries, answer: int, *, shared: bool) -> list[str]:
        """How much each pattern adds to the score of an answer, strongest first; nothing is `shared` by all answers."""
        if shared:
            return []
        shares = {name: float(added[answer]) for name, added in self.links.who.shares(asked).items()}
        strongest = sorted(shares, key=lambda name: -abs(shares[name]))
        told = [f"{name} {shares[name]:+.2f}" for name in strongest if abs(shares[name]) >= LEAST_SHARE]
        return [f"more than for the average entity: {', '.join(told)}"] if told else []

    def note(self, of: Literal["when", "rank"] = "when") -> str:
        """What a probability means."""
        if of == "rank":
            if not self.links.cases:
                return "Probabilities are not calibrated: the KB has too few facts."
            facts = counted(self.links.cases, "fact")
            return f"A probability is the share of such answers that were right, by {facts} that were asked for."
        if not self.dates.cases:
            return "Probabilities are not calibrated: the KB has too few facts with both dates."
        return (
            "A probability is the share of such spans that overlap the true one, by "
            f"{counted(self.dates.cases, 'fact')} that were asked for as if they were not known."
        )
