"""Facts that are likely true and not in the KB.

1. *Screened*. Of every entity that stands in a relation it is asked, at dates of its own facts, who else stands on the
   other side: the best by rules, recurrence and types (all patterns of events) are candidates. So are pairs of which
   another fact often comes with the relation, such as the mirror of a marriage. The `JUDGED` likeliest are looked at.
2. *Judged*. A candidate is dated, asked about from both sides at that date by all patterns, and `features` are what is
   known of it. What does not suit the types of a relation, or a slot that is taken at the time, is left out.
3. How often such candidates are true is learned from facts that had really been taken out (`PrecisionModel`).

Memory is that of a block of questions and of the candidates that are looked at. The result depends on no block sizes.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, FiniteFloat

from timeplex.answers import calibration_maps
from timeplex.answers.calibration_maps import CalibrationMap, logit
from timeplex.answers.dates import TINY, with_dev
from timeplex.answers.kept import Keeper, Numbers
from timeplex.answers.links import PatternRanker
from timeplex.answers.rank import Coexistence, EntityQueries
from timeplex.errors import InputError
from timeplex.kb import spans
from timeplex.kb.facts import Facts, Index, TemporalKB, expand, pair_key, split_key
from timeplex.models.scorer import DIRECTIONS, Direction
from timeplex.patterns.base import Evidence, LinkQueries, Pattern, TimeQueries
from timeplex.patterns.dating import DateModel, Fitted
from timeplex.patterns.open_ends import Begun, OpenEnds
from timeplex.patterns.questions import best_of
from timeplex.patterns.ranking import LinkModel, feature_rows
from timeplex.text import counted
from timeplex.typing import Bools, Floats, Ints, Progress

if TYPE_CHECKING:
    from timeplex.answers.learned import Learned

TIMES = 4
"""At so many dates of an entity the question is asked."""
TOP = 3
"""So many answers of each question become candidates."""
SCREEN = ("rules", "recurrence", "types", "events")
"""The patterns that name candidates; all patterns judge them."""
JUDGED = 4_000
"""So many of the likeliest candidates are judged, …"""
JUDGED_FOR_EACH = 3
"""… or so many times as many as are wanted."""
BLOCK = 32
"""Questions that are asked at a time."""
JUDGED_AT_ONCE = 512
LEAST_FACTS = 10
"""Relations with fewer facts are left out: their answers would be guesses."""
COMMON = 0.2
"""A role that so many of those in another role have belongs to their type."""
RARE = 0.001
"""A company factor counts at least so much where its logarithm is taken."""
ALONE = 0.05
"""Where fewer facts have company, a slot that is taken is not proposed again."""
IMPLIED, LEAST_TOGETHER = 0.05, 3
"""A fact of which so many, and at least so many, come with the relation makes its pair a candidate."""
SHRINKAGE = 5.0

MIN_PROBABILITY = 0.1
"""The least probability, if none is given."""
LIMIT = 1000
"""The most facts, if no number is given."""

SCHEMA = {
    **dict.fromkeys(("subject", "relation", "object", "begin", "end"), pl.String),
    "probability": pl.Float64,
    "reason": pl.String,
}
FEATURES = (
    *(f"{what}, {side}" for side in DIRECTIONS for what in ("log-odds", "answers", "company", "facts", "others' odds")),
    "implied",
    "implied at all",
    "pair known",
    "facts of the relation",
)


@dataclass(frozen=True, eq=False)
class Triples:
    """Candidates (n,): numbers, and how likely the screening takes them to be."""

    s: Ints
    r: Ints
    o: Ints
    score: Floats

    @classmethod
    def none(cls) -> "Triples":
        """No candidate."""
        nobody = np.empty(0, np.int64)
        return cls(nobody, nobody, nobody, np.empty(0))

    def __len__(self) -> int:
        return len(self.s)

    def __getitem__(self, rows: slice | Ints | Bools) -> "Triples":
        return Triples(self.s[rows], self.r[rows], self.o[rows], self.score[rows])

    def best(self, other: "Triples", most: int) -> "Triples":
        """The best of both, each triple once with its best score, the best first."""
        s, r, o = (np.concatenate(pair) for pair in ((self.s, other.s), (self.r, other.r), (self.o, other.o)))
        score = np.concatenate([self.score, other.score])
        order = np.lexsort((-score, o, s, r))
        s, r, o, score = s[order], r[order], o[order], score[order]
        new = np.ones(len(s), np.bool_)
        new[1:] = (s[1:] != s[:-1]) | (r[1:] != r[:-1]) | (o[1:] != o[:-1])
        s, r, o, score = s[new], r[new], o[new], score[new]
        likely = np.argsort(-score, kind="stable")[:most]
        return Triples(s[likely], r[likely], o[likely], score[likely])


@dataclass(frozen=True, eq=False)
class Judged:
    """Candidates with their dates, open where nothing tells them, and `FEATURES` of each: (n,) and (n, features).

    sensible  whether both entities suit the relation, and no slot of one at a time is taken then
    both      the probability as an answer from both sides, if one is missing: the geometric mean
    """

    triples: Triples
    begin: Ints
    end: Ints
    features: Floats
    both: Floats
    sensible: Bools

    def __getitem__(self, rows: Bools) -> "Judged":
        dated = self.triples[rows], self.begin[rows], self.end[rows]
        return Judged(*dated, self.features[rows], self.both[rows], self.sensible[rows])


class Search:
    """Candidates by the patterns of known facts.

    share   the part of the entities that is asked about, drawn with a fixed seed
    """

    def __init__(self, kb: TemporalKB, known: Facts, links: LinkModel, dating: DateModel) -> None:
        self.kb, self.known, self.dating, self.share = kb, known, dating, 1.0
        self.evidence = links.evidence
        self.who = PatternRanker(links, known)
        self.first, self.last = self.evidence.first, self.evidence.last
        self.company = Coexistence(known, len(kb.relations), self.first, self.last)
        self.facts = np.bincount(known.r, minlength=len(kb.relations))
        dated = known[known.dated]
        order = np.argsort(dated.date, kind="stable")  # so that the facts of an entity come by date
        self._when = dated.date[order]
        self._of: dict[Direction, Index] = {
            "object": Index(np.asarray(dated.s, np.int64)[order]),
            "subject": Index(np.asarray(dated.o, np.int64)[order]),
        }

    def relations(self, names: Sequence[str], number: dict[str, int]) -> list[int]:
        """The numbers of relations; one with too few facts is an error if it was named."""
        chosen = list(dict.fromkeys(number[name] for name in names))
        for r in chosen:
            if self.facts[r] < LEAST_FACTS:
                raise InputError(
                    f"{self.kb.relations.label(r)} has {counted(int(self.facts[r]), 'fact')}, too few to discover "
                    "others.",
                    f"Name relations with at least {LEAST_FACTS}, or none for all of them.",
                )
        found = chosen or self.enough()
        if not found:
            raise InputError(f"No relation of {self.kb.name} has {LEAST_FACTS} facts.", "Add facts to the KB.")
        return found

    def enough(self) -> list[int]:
        """The relations with enough facts."""
        enough: list[int] = np.flatnonzero(self.facts >= LEAST_FACTS).tolist()
        return enough

    def entities(self, r: int, direction: Direction) -> Ints:
        """The entities whose question is asked: those that stand in the given role of a fact."""
        found = np.unique((self.known.s if direction == "object" else self.known.o)[self.known.r == r])
        found = found.astype(np.int64)
        if self.share == 1:
            return found
        drawn = np.random.default_rng(r).permutation(len(found))[: math.ceil(self.share * len(found))]
        return found[np.sort(drawn)]

    # Screening --------------------------------------------------------------------------------------------------

    def screened(self, relations: Sequence[int], most: int, on_progress: Progress | None = None) -> Triples:
        """The likeliest candidates by what costs little, best first; none is known, whatever its date."""
        found, done = Triples.none(), 0
        total = sum(len(self.entities(r, direction)) for r in relations for direction in DIRECTIONS)
        for r in relations:
            found = found.best(self._implied_by_others(r), most)
            for direction in DIRECTIONS:
                entities = self.entities(r, direction)
                which, when = self._dates(entities, direction)
                for start in range(0, len(which), BLOCK):
                    part = slice(start, start + BLOCK)
                    found = found.best(self._answers(r, direction, entities[which[part]], when[part]), most)
                    if on_progress is not None and start + BLOCK < len(which):
                        on_progress(done + int(which[start]), total)
                done += len(entities)
                if on_progress is not None:
                    on_progress(done, total)
        return found

    def _answers(self, r: int, direction: Direction, given: Ints, when: Ints) -> Triples:
        """The best new answers of some questions."""
        r = r if direction == "object" else r + len(self.kb.relations)
        queries = LinkQueries(given, np.full(len(given), r), when, when)
        rows = feature_rows(self._screen, queries)
        scores = np.matmul(self._weights(r)[None].astype(np.float32), rows)[:, 0].astype(np.float64)
        scores[:, ~self._seen] = -np.inf
        scores[np.arange(len(given)), given] = -np.inf
        query, fact = self._by_side.matches(pair_key(given, np.full(len(given), r)))
        scores[query, self.evidence.y[fact]] = -np.inf
        answer = best_of(scores, TOP)
        score = np.take_along_axis(scores, answer, 1)
        most = scores.max(1, keepdims=True)
        most[~np.isfinite(most)] = 0
        total = np.exp(scores - most).sum(1, keepdims=True)
        likely = np.exp(score - most) / np.maximum(total, 1e-300)
        there = np.isfinite(score)
        x, y = np.broadcast_to(given[:, None], answer.shape)[there], answer[there].astype(np.int64)
        s, o = (x, y) if direction == "object" else (y, x)
        return Triples(s, np.full(len(s), r % len(self.kb.relations)), o, likely[there])

    def _implied_by_others(self, r: int) -> Triples:
        """Pairs that have a fact which often comes with the relation."""
        pairs, implied = self._implied(r)
        x, y = split_key(pairs)
        fresh = (implied >= IMPLIED) & ~self.known.states(x, np.full(len(x), r), y) & (x != y)
        if self.share < 1:
            drawn = np.union1d(self.entities(r, "object"), self.entities(r, "subject"))
            fresh &= np.isin(x, drawn) | np.isin(y, drawn)
        return Triples(x[fresh], np.full(int(fresh.sum()), r), y[fresh], implied[fresh])

    def _implied(self, r: int) -> tuple[Ints, Floats]:
        """All pairs with a fact of another relation, either way round, and how often r comes with such facts."""
        width = 2 * len(self.kb.relations)
        pair, other = self._pairs
        has = np.isin(pair, pair[other == r])
        count = np.bincount(other, minlength=width).astype(float)
        together = np.bincount(other, has, width)
        often = np.where(together >= LEAST_TOGETHER, together / (count + SHRINKAGE), 0.0)
        often[r] = 0.0
        distinct, where = self._distinct
        best = np.zeros(len(distinct))
        np.maximum.at(best, where, often[other])
        return distinct, best

    @cached_property
    def _pairs(self) -> tuple[Ints, Ints]:
        """Every pair of entities with every directed relation that a fact has between them, once each."""
        evidence = self.evidence
        pair = pair_key(evidence.x, evidence.y)
        order = np.lexsort((evidence.r, pair))
        pair, r = pair[order], evidence.r[order]
        new = np.ones(len(pair), np.bool_)
        new[1:] = (pair[1:] != pair[:-1]) | (r[1:] != r[:-1])
        return pair[new], r[new]

    @cached_property
    def _distinct(self) -> tuple[Ints, Ints]:
        """The pairs, and which of them each row of `_pairs` has."""
        distinct, where = np.unique(self._pairs[0], return_inverse=True)
        return distinct, where

    @cached_property
    def _by_side(self) -> Index:
        return Index(pair_key(self.evidence.x, self.evidence.r))

    @cached_property
    def _seen(self) -> Bools:
        return self.evidence.facts.mentioned(self.evidence.entities)

    @cached_property
    def _screen(self) -> list[Pattern]:
        return [pattern for pattern in self.who.model.patterns if pattern.name in SCREEN]

    def _weights(self, r: int) -> Floats:
        """Those of the features that screen."""
        weights = self.who.model.weights.of(np.array([r]))[0]
        parts, first = [], 0
        for pattern in self.who.model.patterns:
            last = first + len(pattern.candidate_features)
            if pattern.name in SCREEN:
                parts.append(weights[first:last])
            first = last
        return np.concatenate(parts)

    def _dates(self, given: Ints, direction: Direction) -> tuple[Ints, Ints]:
        """Which entity, and when: up to `TIMES` dates of its own facts in that role, evenly chosen by rank.

        In a KB without any date there is but one time to ask at.
        """
        if len(self._when) == 0:
            return np.arange(len(given)), np.full(len(given), self.last)
        start, stop = self._of[direction].ranges(given)
        number = np.minimum(stop - start, TIMES)
        which, step = expand(np.zeros_like(number), number)
        place = start[which] + ((2 * step + 1) * (stop - start)[which]) // (2 * np.maximum(number[which], 1))
        when = np.clip(self._when[self._of[direction].order[place]], self.first, self.last)
        distinct = np.unique(np.stack([which, when]), axis=1)
        return distinct[0], distinct[1]

    # Judging ----------------------------------------------------------------------------------------------------

    def judge(self, found: Triples, on_progress: Progress | None = None) -> Judged:
        """Date candidates, and ask both questions at that date."""
        s, r, o = found.s, found.r, found.o
        begin, end = np.full(len(s), spans.OPEN_BEGIN, np.int64), np.full(len(s), spans.OPEN_END, np.int64)
        features = np.empty((len(s), len(FEATURES)))
        both, sensible = np.empty(len(s)), self._suits(s, r) & self._suits(o, r + len(self.kb.relations))
        for start in range(0, len(s), JUDGED_AT_ONCE):
            part = slice(start, start + JUDGED_AT_ONCE)
            if len(self._when):
                begin[part], end[part] = self._dated(s[part], r[part], o[part])
            some = found[part], begin[part], end[part]
            features[part], both[part], free = self._asked(*some)
            sensible[part] &= free
            if on_progress is not None:
                on_progress(min(start + JUDGED_AT_ONCE, len(s)), len(s))
        return Judged(found, begin, end, features, both, sensible)

    def _dated(self, s: Ints, r: Ints, o: Ints) -> tuple[Ints, Ints]:
        """The likeliest spans, open at the end if they are likelier to go on than not."""
        begin, end = (side[:, 0] for side in self.dating.spans(TimeQueries(s, r, o)))
        going_on = self._open(Begun(s, r, o, begin, np.full(len(s), -1)))
        return begin, np.where(going_on > 0.5, spans.OPEN_END, end)

    @cached_property
    def _open(self) -> OpenEnds:
        return OpenEnds.fit(self.evidence)

    def _asked(self, found: Triples, begin: Ints, end: Ints) -> tuple[Floats, Floats, Bools]:
        s, r, o = found.s, found.r, found.o
        at = spans.close((begin, end), self.last, self.last)
        at = np.clip(at[0], self.first, self.last), np.clip(at[1], self.first, self.last)
        known, both, columns, free = self.who.known, np.zeros(len(s)), [], np.ones(len(s), np.bool_)
        for direction in DIRECTIONS:
            given, answer = (s, o) if direction == "object" else (o, s)
            questions = EntityQueries(direction, given, r, *at)
            raw, rank = self.who.raw_of(questions, answer)
            company = self.company.factor(questions, known)
            free &= company >= ALONE
            both += np.log(np.maximum(raw, RARE)) / 2
            start, stop = self._of[direction].ranges(given)
            answers = np.log1p(known.count(questions))
            columns += [logit(raw), answers, np.log(np.maximum(company, RARE)), np.log1p(stop - start), np.log(rank)]
        implied = np.zeros(len(s))
        pair = pair_key(s, o)
        for relation in np.unique(r).tolist():
            pairs, often = self._implied(relation)
            here = r == relation
            place = np.minimum(np.searchsorted(pairs, pair[here]), max(len(pairs) - 1, 0))
            implied[here] = np.where(pairs[place] == pair[here], often[place], 0.0) if len(pairs) else 0.0
        start, stop = self.known.by_pair.ranges(pair_key(np.minimum(s, o), np.maximum(s, o)))
        columns += [logit(np.maximum(implied, RARE)), implied >= IMPLIED, stop > start, np.log1p(self.facts[r])]
        return np.column_stack(columns).astype(float), np.exp(both), free

    def _suits(self, entity: Ints, role: Ints) -> Bools:
        """Whether an entity stands in a role already, or in one that is common among those who do: (n,)."""
        has, width = self._roles, 2 * len(self.kb.relations)
        suits = has[entity, role]
        for each in np.unique(role).tolist():
            holders = has[:, each]
            common = has[holders].sum(0) >= max(COMMON * holders.sum(), 2)
            common[each] = False
            here = role == each
            suits[here] |= (has[entity[here]] & common[:width]).any(1)
        return suits

    @cached_property
    def _roles(self) -> Bools:
        """(entities, 2R): who has facts of which directed relation."""
        has = np.zeros((self.evidence.entities, 2 * len(self.kb.relations)), np.bool_)
        has[self.evidence.x, self.evidence.r] = True
        return has


def search_of(learned: "Learned", kb: TemporalKB, known: Facts) -> Search:
    """A search that knows these facts alone, with the weights that were learned."""
    evidence = Evidence.of(kb, known)
    links = LinkModel.from_state(*learned.links.who.model.state(), evidence, learned.extra)
    return Search(kb, known, links, DateModel(evidence, Fitted.of(evidence), learned.dates.model.weights))


def discover(
    learned: "Learned",
    relations: Sequence[str] = (),
    min_probability: float = MIN_PROBABILITY,
    limit: int = LIMIT,
    on_progress: Progress | None = None,
) -> Iterator[pl.DataFrame]:
    """The best facts that the KB lacks, ranked, some rows at a time, each with its reason; see `Learned.discover`."""
    if not 0 <= min_probability <= 1:
        raise InputError(f"{min_probability} is not a probability.", "Give a number from 0 to 1.")
    if limit < 1:
        raise InputError(f"{limit} facts cannot be found.", "Give a number of at least 1.")
    kb = learned.kb
    search = Search(kb, kb.facts, learned.links.who.model, learned.dates.model)
    chosen = search.relations(relations, {name: learned.asking.relation(name) for name in relations})
    total = sum(len(search.entities(r, direction)) for r in chosen for direction in DIRECTIONS)

    def report(done: int) -> None:
        if on_progress is not None:
            on_progress(done, 2 * total)

    found = search.screened(chosen, max(JUDGED, JUDGED_FOR_EACH * limit), lambda done, _: report(done))
    judged = search.judge(found, lambda done, of: report(total + done * total // (of or 1)))
    report(2 * total)
    probability = np.where(judged.sensible, learned.proposals(judged), -1.0)
    order = np.lexsort((-judged.both, -probability))
    order = order[(probability >= min_probability)[order]][:limit]
    for start in range(0, len(order), BLOCK):
        yield table(learned, search, judged, probability, order[start : start + BLOCK])


def table(learned: "Learned", search: Search, judged: Judged, probability: Floats, rows: Ints) -> pl.DataFrame:
    """As a table with names, dates and reasons."""
    kb, found = learned.kb, []
    for row in rows.tolist():
        s, r, o = (int(column[row]) for column in (judged.triples.s, judged.triples.r, judged.triples.o))
        begin, end = int(judged.begin[row]), int(judged.end[row])
        at = tuple(np.clip([each], search.first, search.last) for each in (begin, end))
        asked = EntityQueries("object", np.array([s]), np.array([r]), *at)
        why = _between(learned, s, o) or learned.ranking_reasons(asked, [o])[0][:1]
        span = [kb.date(begin), kb.date(end)]
        names = kb.entities[s], kb.relations[r], kb.entities[o]
        found.append(
            (*names, *span, round(float(probability[row]), 4), "; ".join(why) or "no single pattern tells more")
        )
    return pl.DataFrame(found, schema=SCHEMA, orient="row")


def _between(learned: "Learned", s: int, o: int) -> list[str]:
    """What the KB states of the two entities together, the first fact of it: often the same from the other side."""
    kb = learned.kb
    for row in kb.facts.of_pair(s, o)[:1].tolist():
        fact = kb.facts[row : row + 1]
        one, other = kb.entities.label(int(fact.s[0])), kb.entities.label(int(fact.o[0]))
        when = learned.asking.span_text(int(fact.begin[0]), int(fact.end[0]))
        return [f"the KB has {one} {kb.relations.label(int(fact.r[0]))} {other}, {when}"]
    return []


MOST_ENTITIES = 10_000
"""About so many entities are asked about, drawn with a fixed seed."""
FIRST = 50
"""So many of the likeliest proposals say how far the probabilities can be believed: nearly all others are said to be
wrong, and are, so that a mean over all of them would be flattering."""
LEAST_RIGHT = 20
"""With fewer right proposals nothing is fitted."""


@dataclass(frozen=True, eq=False)
class Regression:
    """A logistic regression of `FEATURES`, which are made comparable first; `weights` ends with the intercept."""

    mean: Floats
    deviation: Floats
    weights: Floats

    @classmethod
    def fit(cls, features: Floats, right: Bools) -> "Regression":
        """By some cases: (n, features), (n,)."""
        mean, deviation = features.mean(0), features.std(0)
        deviation = np.where(deviation > 0, deviation, 1.0)
        start = np.zeros(len(mean) + 1)
        x = (features - mean) / deviation
        return cls(mean, deviation, np.array(calibration_maps.logistic(x, right.astype(float), start, shrink=1.0)))

    def __call__(self, features: Floats) -> Floats:
        """Probabilities: (n,)."""
        x = (features - self.mean) / self.deviation
        return calibration_maps.sigmoid(x @ self.weights[:-1] + self.weights[-1])


class ProposalsState(BaseModel):
    """All of a `PrecisionModel` but its arrays."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    last: CalibrationMap | None
    facts: int
    measured: dict[str, FiniteFloat]


@dataclass(frozen=True, eq=False)
class PrecisionModel:
    """How often proposals are true, fitted on dev; `facts` is the number of dev facts, 0 if nothing was fitted."""

    regression: Regression | None = None
    last: CalibrationMap | None = None
    facts: int = 0
    measured: dict[str, float] = field(default_factory=dict)

    def __call__(self, judged: Judged) -> Floats:
        """Probabilities of proposals, (n,); of an answer if one is missing, if nothing was fitted."""
        if self.regression is None or self.last is None:
            return judged.both
        return self.last(self.regression(judged.features), judged.triples.r)

    def keep(self, keeper: Keeper) -> None:
        """Write it down."""
        of = self.regression
        arrays = {} if of is None else {"mean": of.mean, "deviation": of.deviation, "weights": of.weights}
        keeper.keep("proposals", ProposalsState(last=self.last, facts=self.facts, measured=self.measured), arrays)

    @classmethod
    def restored(cls, relations: int, keeper: Keeper) -> "PrecisionModel | None":
        """What is kept, if it can be used."""

        def build(state: ProposalsState, numbers: Numbers) -> "PrecisionModel | None":
            if state.last is None:
                numbers.of()
                return cls()
            width = len(FEATURES)
            found = numbers.of(mean=(width,), deviation=(width,), weights=(width + 1,))
            there = {"cases", "said", "right"} <= state.measured.keys() and state.facts > 0
            if not there or not state.last.fits(relations) or (found["deviation"] <= TINY).any():
                return None
            return cls(Regression(**found), state.last, state.facts, dict(state.measured))

        return keeper.restored("proposals", ProposalsState, build)

    def note(self, known: int) -> str:
        """What a probability means, in a KB with so many known facts."""
        if not self.facts:
            return (
                "Probabilities are not calibrated: fewer than "
                f"{LEAST_RIGHT} dev facts were found again. They are those of an answer if one is missing."
            )
        cases, said, right = (self.measured[key] for key in ("cases", "said", "right"))
        return (
            f"A probability is the share of such proposals that were found to be true when {self.facts:,} facts "
            f"({self.facts / known:.0%}) had been taken out: of the likeliest {cases:.0f}, {cases * right:.0f} were, "
            f"and {cases * said:.0f} had been expected."
        )


@dataclass(frozen=True, eq=False)
class Cases:
    """Proposals, and whether they are right: (n,)."""

    judged: Judged
    right: Bools


def fit(learned: "Learned") -> PrecisionModel:
    """What dev can tell; `measured` is by cases that had no part in fitting (five folds)."""
    judged = with_dev(learned.kb)
    if not len(judged.valid):
        return PrecisionModel()
    found = cases(search_of(learned, judged, judged.train), judged.valid, learned.kb.facts)
    return fitted_on(found, len(judged.valid), len(judged.relations))


def fitted_on(found: Cases, facts: int, relations: int) -> PrecisionModel:
    """The model of some cases."""
    right, features, r = found.right, found.judged.features, found.judged.triples.r
    if right.sum() < LEAST_RIGHT:
        return PrecisionModel()
    crossed, fold = np.empty(len(right)), calibration_maps.folds(len(right))
    for each in np.unique(fold):
        here = fold == each
        crossed[here] = Regression.fit(features[~here], right[~here])(features[here])
    last, said = calibration_maps.choose(crossed, right, r, fold, relations)
    return PrecisionModel(Regression.fit(features, right), last, facts, first(said, right))


def cases(search: Search, true: Facts, anywhere: Facts, most: int = JUDGED) -> Cases:
    """What is proposed, and whether `true` states it.

    What the KB states elsewhere is left out: nobody could take it for wrong.
    """
    relations = search.enough()
    asked = sum(len(search.entities(r, direction)) for r in relations for direction in DIRECTIONS)
    search.share = min(1.0, MOST_ENTITIES / max(asked, 1))
    found = search.screened(relations, most)
    right = true.states(found.s, found.r, found.o)
    counts = right | ~anywhere.states(found.s, found.r, found.o)
    judged = search.judge(found[counts])
    return Cases(judged[judged.sensible], right[counts][judged.sensible])


def first(said: Floats, right: Bools, number: int = FIRST) -> dict[str, float]:
    """Of the likeliest proposals: how many they are, what they were said to be, and the share that is right."""
    best = np.argsort(-said, kind="stable")[:number]
    return {"cases": float(len(best)), "said": float(said[best].mean()), "right": float(right[best].mean())}
