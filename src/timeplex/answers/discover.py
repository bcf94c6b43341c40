"""Facts that are likely true and not in the KB.

`candidates` says which facts are tried. What `rank` says of them is the probability of an answer *if one is missing*.
How often such candidates are true is another question; `proposals` answers it by facts that had been taken out, and
that is their probability.

Only the best are kept: memory is that of a block of questions and of `most` candidates. The result depends on the run
alone, not on the sizes of blocks.
"""

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from pydantic import BaseModel, ConfigDict, FiniteFloat

from timeplex.answers import calibration_maps
from timeplex.answers.calibration_maps import logit
from timeplex.answers.explain import begin_position, reasons_text
from timeplex.answers.rank import EntityQueries, EntityRanker
from timeplex.errors import InputError
from timeplex.kb import dates, spans
from timeplex.kb.facts import Facts, Index, expand, pair_key
from timeplex.models.scorer import DIRECTIONS, Direction
from timeplex.text import counted
from timeplex.typing import Bools, Floats, Ints, Progress

if TYPE_CHECKING:
    from timeplex.answers.trained import Trained


TIMES = 4
"""At so many dates of an entity the question is asked."""

TOP = 3
"""So many answers of each question become candidates."""

BLOCK = 1024
"""Entities whose questions are asked at a time."""

RARE = 0.001
"""A company factor counts at least so much where its logarithm is taken."""

FEATURES = 9
"""So many things are known of a candidate (`Judged`)."""

LEAST_FACTS = 10
"""Relations with fewer training facts are left out: their answers would be guesses."""


FEATURES = 9
"""What is known of a candidate, in numbers."""


@dataclass(frozen=True)
class Judged:
    """Candidates with their dates, open where the model knows none, and what is known of them: (n,).

    both        √(Pr(o | s, r, T) · Pr(s | r, o, T)), the probabilities of `rank`
    features    (n, 9): for either direction the logit of the raw probability, the log of 1 + the known answers to the
                question at any time, and the log of the company factor; for either entity the log of 1 + its training
                facts; and whether another known fact has both entities
    """

    s: Ints
    r: Ints
    o: Ints
    begin: Ints
    end: Ints
    both: Floats
    features: Floats


class Search:
    """Candidates of a trained run, and what it says of them; `known` are the facts that are not looked for.

    share   the part of the entities that is asked about, drawn with a fixed seed
    """

    def __init__(self, trained: "Trained", known: Facts | None = None) -> None:
        self.trained = trained
        self.who = trained.who if known is None else EntityRanker(trained.run, known)
        self.share = 1.0
        self.first, self.last = (int(trained.run.timeline.instants[at]) for at in (0, -1))
        train = trained.kb.train
        open_begin, open_end = spans.is_open(train.span)
        dated = train[~(open_begin & open_end)]
        self._when = np.where(dated.begin == spans.OPEN_BEGIN, dated.end, dated.begin).astype(np.int64)
        count = len(trained.kb.entities)
        self._facts: dict[Direction, Ints] = {
            "object": np.bincount(train.s, minlength=count),
            "subject": np.bincount(train.o, minlength=count),
        }
        order = np.argsort(self._when, kind="stable")  # so that the facts of an entity come by date
        self._when = self._when[order]
        self._of: dict[Direction, Index] = {
            "object": Index(np.asarray(dated.s, np.int64)[order]),
            "subject": Index(np.asarray(dated.o, np.int64)[order]),
        }

    def relations(self, names: Sequence[str]) -> list[int]:
        """The numbers of relations; one with too few training facts is an error if it was named."""
        counts = self._counts()
        chosen = list(dict.fromkeys(self.trained.asking.relation(name) for name in names))
        for r in chosen:
            if counts[r] < LEAST_FACTS:
                name, facts = self.trained.kb.relations.label(r), counted(counts[r], "training fact")
                raise InputError(
                    f"{name} has {facts}, too few to discover others.",
                    f"Name relations with at least {LEAST_FACTS}, or none for all of them.",
                )
        found = chosen or self.enough()
        if not found:
            raise InputError(
                f"No relation of {self.trained.kb.name} has {LEAST_FACTS} training facts.", "Train on more facts."
            )
        return found

    def enough(self) -> list[int]:
        """The relations with enough training facts."""
        enough: list[int] = np.flatnonzero(self._counts() >= LEAST_FACTS).tolist()
        return enough

    def _counts(self) -> Ints:
        return np.bincount(self.trained.kb.train.r, minlength=len(self.trained.kb.relations))

    def entities(self, r: int, direction: Direction) -> Ints:
        """The entities whose question is asked: those that stand in the given role of the training facts."""
        train = self.trained.kb.train
        found = np.unique((train.s if direction == "object" else train.o)[train.r == r]).astype(np.int64)
        if self.share == 1:
            return found
        drawn = np.random.default_rng(r).permutation(len(found))[: math.ceil(self.share * len(found))]
        return found[np.sort(drawn)]

    def candidates(self, r: int) -> Iterator[tuple[int, Ints, Ints]]:
        """(entities asked about, subjects, objects) by blocks; no pair is known, and none comes twice in a block."""
        for direction in DIRECTIONS:
            entities = self.entities(r, direction)
            for start in range(0, len(entities), BLOCK):
                given = entities[start : start + BLOCK]
                which, when = self._dates(given, direction)
                questions = EntityQueries(direction, given[which], np.full(len(which), r), when, when)
                found = self.who.rank(questions, TOP, hide_known=True).entity
                pair = np.stack([np.repeat(given[which], found.shape[1]), found.ravel()])[:, found.ravel() >= 0]
                given_once, answer = np.unique(pair, axis=1)
                s, o = (given_once, answer) if direction == "object" else (answer, given_once)
                new = ~self.who.known.facts.states(s, np.full(len(s), r), o) & (s != o)
                yield len(given), s[new], o[new]

    def judge(self, s: Ints, r: Ints, o: Ints) -> Judged:
        """Date candidates, and ask both questions at that date."""
        trained = self.trained
        begin, end = np.full(len(s), spans.OPEN_BEGIN, np.int64), np.full(len(s), spans.OPEN_END, np.int64)
        at = np.full(len(s), self.last), np.full(len(s), self.last)
        if trained.run.scorer.predicts_times and len(self._when):
            begin, end = trained.dating.likeliest(s, r, o, trained.calibration.when)
            at = np.clip(begin, self.first, self.last), np.clip(end, self.first, self.last)
        known, both, features = self.who.known, np.ones(len(s)), []
        for direction in DIRECTIONS:
            given, answer = (s, o) if direction == "object" else (o, s)
            questions = EntityQueries(direction, given, r, *at)
            raw, _ = self.who.raw_of(questions, answer)
            both *= trained.probability(questions, raw[:, None], known=known)[:, 0]
            answers = known.count(questions)
            company = trained._company.factor(questions, known)
            features += [
                logit(raw),
                np.log1p(answers),
                np.log(np.maximum(company, RARE)),
                np.log1p(self._facts[direction][given]),
            ]
        start, stop = known.facts.by_pair.ranges(pair_key(np.minimum(s, o), np.maximum(s, o)))
        features.append((stop > start).astype(float))
        return Judged(s, r, o, begin, end, np.sqrt(both), np.column_stack(features))

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


MIN_PROBABILITY = 0.1
"""The least probability, if none is given."""

LIMIT = 1000
"""The most facts, if no number is given."""

SCHEMA = {
    **dict.fromkeys(("subject", "relation", "object", "begin", "end"), pl.String),
    "probability": pl.Float64,
    "reason": pl.String,
}


@dataclass(frozen=True, order=True)
class Candidate:
    """A fact that may be missing; the greater, the better: by probability, by both sides, then by smaller numbers."""

    probability: float
    both: float
    minus_r: int
    minus_s: int
    minus_o: int
    begin: int
    end: int

    @classmethod
    def of(cls, judged: Judged, row: int, probability: float) -> "Candidate":
        """One of many."""
        columns = (judged.r, judged.s, judged.o, judged.begin, judged.end)
        r, s, o, begin, end = (int(column[row]) for column in columns)
        return cls(probability, float(judged.both[row]), -r, -s, -o, begin, end)

    @property
    def triple(self) -> tuple[int, int, int]:
        """(s, r, o)."""
        return -self.minus_s, -self.minus_r, -self.minus_o


class Best:
    """The best of all candidates that were offered, at most so many, each triple once."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._heap: list[Candidate] = []
        self._kept: set[tuple[int, int, int]] = set()

    def offer(self, candidate: Candidate) -> None:
        """Keep it if it is among the best so far."""
        if candidate.triple in self._kept:
            return
        if len(self._heap) < self.most:
            heapq.heappush(self._heap, candidate)
        elif self._heap and candidate > self._heap[0]:
            self._kept.discard(heapq.heapreplace(self._heap, candidate).triple)
        else:
            return
        self._kept.add(candidate.triple)

    def ranked(self) -> list[Candidate]:
        """Best first."""
        return sorted(self._heap, reverse=True)


def discover(
    trained: "Trained",
    relations: Sequence[str] = (),
    min_probability: float = MIN_PROBABILITY,
    limit: int = LIMIT,
    on_progress: Progress | None = None,
) -> Iterator[pl.DataFrame]:
    """The best facts that the KB lacks, ranked, some rows at a time, each with its reason; see `Trained.discover`."""
    if not 0 <= min_probability <= 1:
        raise InputError(f"{min_probability} is not a probability.", "Give a number from 0 to 1.")
    if limit < 1:
        raise InputError(f"{limit} facts cannot be found.", "Give a number of at least 1.")
    best = Best(limit)
    search = Search(trained)
    chosen = search.relations(relations)
    total = sum(len(search.entities(r, direction)) for r in chosen for direction in DIRECTIONS)
    done = 0
    for r in chosen:
        for asked, s, o in search.candidates(r):
            judged = search.judge(s, np.full(len(s), r), o)
            probability = trained.proposals(judged.features, judged.both)
            for row in np.flatnonzero(probability >= min_probability).tolist():
                best.offer(Candidate.of(judged, row, float(probability[row])))
            done += asked
            if on_progress is not None:
                on_progress(done, total)
    ranked = best.ranked()
    for start in range(0, len(ranked), BLOCK):
        yield table(trained, ranked[start : start + BLOCK])


def table(trained: "Trained", ranked: Sequence[Candidate]) -> pl.DataFrame:
    """As a table with names, dates and reasons."""
    kb, timeline = trained.kb, trained.run.timeline
    rows = []
    for each in ranked:
        s, r, o = each.triple
        position = int(begin_position(timeline, [each.begin], [each.end])[0])
        why = [*_between(trained, s, o), *reasons_text(trained, s, r, o, position, most=1)]
        is_open = each.begin == spans.OPEN_BEGIN
        span = [None, None] if is_open else dates.write([each.begin, each.end], kb.granularity)
        names = kb.entities[s], kb.relations[r], kb.entities[o]
        reason = "; ".join(why) or "the model alone: no training fact tells more"
        rows.append((*names, *span, round(each.probability, 4), reason))
    return pl.DataFrame(rows, schema=SCHEMA, orient="row")


def _between(trained: "Trained", s: int, o: int) -> list[str]:
    """What the KB states of the two entities together, the first fact of it: often the same from the other side."""
    kb = trained.kb
    for row in kb.facts.of_pair(s, o)[:1].tolist():
        fact = kb.facts[row : row + 1]
        one, other = kb.entities.label(int(fact.s[0])), kb.entities.label(int(fact.o[0]))
        when = trained.asking.span_text(int(fact.begin[0]), int(fact.end[0]))
        return [f"the KB has {one} {kb.relations.label(int(fact.r[0]))} {other}, {when}"]
    return []


MOST_ENTITIES = 10_000
"""About so many entities are asked about, drawn with a fixed seed."""

FIRST = 50
"""So many of the likeliest proposals say how far the probabilities can be believed: nearly all others are said to be
wrong, and are, so that a mean over all of them would be flattering."""

LEAST_RIGHT = 20
"""With fewer right proposals nothing is fitted."""


class PrecisionModel(BaseModel):
    """What was fitted on dev; `facts` is the number of dev facts, 0 if nothing was. `weights` ends with b."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mean: tuple[FiniteFloat, ...] = ()
    deviation: tuple[FiniteFloat, ...] = ()
    weights: tuple[FiniteFloat, ...] = ()
    facts: int = 0
    measured: dict[str, float] = {}

    def fits(self) -> bool:
        """Whether it can be used, which a stored one need not."""
        return (
            len(self.mean) == len(self.deviation) == max(len(self.weights) - 1, 0)
            and len(self.mean) in (0, FEATURES)
            and all(deviation > 1 / calibration_maps.LARGEST for deviation in self.deviation)
            and all(abs(number) <= calibration_maps.LARGEST for number in (*self.mean, *self.weights))
            and (not self.facts or {"cases", "said", "right"} <= self.measured.keys())
            and all(math.isfinite(figure) for figure in self.measured.values())
        )

    def __call__(self, features: Floats, both: Floats) -> Floats:
        """Probabilities of proposals, (n,), from their features (n, f), or `both` (n,) if nothing was fitted."""
        if not self.weights:
            return both
        x = (features - np.array(self.mean)) / np.array(self.deviation)
        return calibration_maps.sigmoid(x @ np.array(self.weights[:-1]) + self.weights[-1])

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


@dataclass(frozen=True)
class Cases:
    """Proposals: their features (n, f), what `rank` gives them from both sides, and whether they are right: (n,)."""

    features: Floats
    both: Floats
    right: Bools


def fit(trained: "Trained") -> PrecisionModel:
    """What dev can tell; `measured` is by cases that had no part in fitting (five folds)."""
    kb = trained.kb
    found = cases(trained, kb.train, kb.valid)
    if found.right.sum() < LEAST_RIGHT:
        return PrecisionModel()
    crossed, fold = np.empty(len(found.both)), calibration_maps.folds(len(found.both))
    for each in np.unique(fold):
        here = fold == each
        crossed[here] = _fitted(found.features[~here], found.right[~here])(found.features[here], found.both[here])
    whole = _fitted(found.features, found.right)
    return whole.model_copy(update={"facts": len(kb.valid), "measured": first(crossed, found.right)})


def cases(trained: "Trained", known: Facts, true: Facts) -> Cases:
    """What is proposed if `known` is known, each pair once, and whether `true` states it.

    What the KB states outside of both is left out: nobody could take it for wrong.
    """
    search = Search(trained, known)
    relations = search.enough()
    asked = sum(len(search.entities(r, direction)) for r in relations for direction in DIRECTIONS)
    search.share = min(1.0, MOST_ENTITIES / max(asked, 1))
    features, both, right = [np.empty((0, FEATURES))], [np.empty(0)], [np.empty(0, np.bool_)]
    for r in relations:
        pairs = [np.stack([s, o]) for _, s, o in search.candidates(r)]
        s, o = np.unique(np.concatenate(pairs, axis=1), axis=1)
        of = np.full(len(s), r)
        is_right = true.states(s, of, o)
        counts = is_right | ~trained.kb.facts.states(s, of, o)
        judged = search.judge(s[counts], of[counts], o[counts])
        features.append(judged.features)
        both.append(judged.both)
        right.append(is_right[counts])
    return Cases(np.concatenate(features), np.concatenate(both), np.concatenate(right))


def first(said: Floats, right: Bools, number: int = FIRST) -> dict[str, float]:
    """Of the likeliest proposals: how many they are, what they were said to be, and the share that is right."""
    best = np.argsort(-said, kind="stable")[:number]
    return {"cases": float(len(best)), "said": float(said[best].mean()), "right": float(right[best].mean())}


def _fitted(features: Floats, right: Bools) -> PrecisionModel:
    """The regression on some cases."""
    mean, deviation = features.mean(0), features.std(0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    weights = calibration_maps.logistic(
        (features - mean) / deviation, right.astype(float), np.zeros(len(mean) + 1), shrink=1.0
    )
    return PrecisionModel(mean=tuple(mean.tolist()), deviation=tuple(deviation.tolist()), weights=tuple(weights))
