"""Facts that are likely true and not in the KB.

All (s, r, o, t) cannot be tried. For every entity that a relation has in the training facts, in either role, the
question of the other entity is asked at a few dates of its own (`TIMES` of its facts, evenly chosen), and the `TOP`
best answers that the KB does not state at any time are candidates. A candidate is then judged by itself, whatever
question it came from: `when` dates it, and both questions are asked at that date. What `rank` says is the probability
of an answer *if one is missing*. How often such candidates are true is another question; `proposals` answers it by
facts that had been taken out, and that is their probability.

Only the best are kept: memory is that of a block of questions and of `most` candidates. The result depends on the run
alone, not on the sizes of blocks.
"""

import heapq
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from timeplex.errors import InputError
from timeplex.evaluation.queries import DIRECTIONS, Direction
from timeplex.inference.explain import begin_position, reasons_text
from timeplex.inference.maps import logit
from timeplex.inference.who import Questions, Who
from timeplex.kb import dates, spans
from timeplex.kb.dates import Ints
from timeplex.kb.facts import Facts, Index, expand, pair_key
from timeplex.kb.spans import Floats

if TYPE_CHECKING:
    from timeplex.inference.trained import Trained

TIMES = 4
"""At so many dates of an entity the question is asked."""

TOP = 3
"""So many answers of each question become candidates."""

BLOCK = 1024
"""Entities whose questions are asked at a time."""

RARE = 0.001
"""A company factor counts at least so much where its logarithm is taken."""

LEAST_FACTS = 10
"""Relations with fewer training facts are left out: their answers would be guesses."""

LEAST = 0.1
"""The least probability, if none is given."""

MOST = 1000
"""The most facts, if no number is given."""

Progress = Callable[[int, int | None], None]
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
    *,
    relations: Sequence[str] = (),
    least: float = LEAST,
    most: int = MOST,
    progress: Progress | None = None,
) -> Iterator[pl.DataFrame]:
    """The best facts that the KB lacks, ranked, some rows at a time, with the reason for each.

    relations: only these (all that have enough training facts, if none is given); least: the least probability.
    """
    if not 0 <= least <= 1:
        raise InputError(f"{least} is not a probability.", "Give a number from 0 to 1.")
    if most < 1:
        raise InputError(f"{most} facts cannot be found.", "Give a number of at least 1.")
    best = Best(most)
    search = Search(trained)
    chosen = search.relations(relations)
    total = sum(len(search.entities(r, direction)) for r in chosen for direction in DIRECTIONS)
    done = 0
    for r in chosen:
        for asked, s, o in search.candidates(r):
            judged = search.judge(s, np.full(len(s), r), o)
            probability = trained.proposals(judged.features, judged.both)
            for row in np.flatnonzero(probability >= least).tolist():
                best.offer(judged.candidate(row, float(probability[row])))
            done += asked
            if progress is not None:
                progress(done, total)
    ranked = best.ranked()
    for start in range(0, len(ranked), BLOCK):
        yield search.frame(ranked[start : start + BLOCK])


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

    def candidate(self, row: int, probability: float) -> Candidate:
        """One of them."""
        s, r, o, begin, end = (int(column[row]) for column in (self.s, self.r, self.o, self.begin, self.end))
        return Candidate(probability, float(self.both[row]), -r, -s, -o, begin, end)


class Search:
    """Candidates of a trained run, and what it says of them; `known` are the facts that are not looked for.

    share   the part of the entities that is asked about, drawn with a fixed seed
    """

    def __init__(self, trained: "Trained", known: Facts | None = None) -> None:
        self.trained = trained
        self.who = trained.who if known is None else Who(trained.run, known)
        self.share = 1.0
        facts = self.who.known.facts
        self._pairs = np.unique(pair_key(facts.s, facts.o))
        self.first, self.last = (int(trained.timeline.instants[at]) for at in (0, -1))
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
                name, facts = self.trained.kb.relations.label(r), "fact" if counts[r] == 1 else "facts"
                raise InputError(
                    f"{name} has {counts[r]} training {facts}, too few to discover others.",
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
                questions = Questions(direction, given[which], np.full(len(which), r), when, when)
                found = self.who.rank(questions, TOP, hide_known=True).entity
                pair = np.stack([np.repeat(given[which], found.shape[1]), found.ravel()])[:, found.ravel() >= 0]
                given_once, answer = np.unique(pair, axis=1)
                s, o = (given_once, answer) if direction == "object" else (answer, given_once)
                new = ~self.stated(s, np.full(len(s), r), o) & (s != o)
                yield len(given), s[new], o[new]

    def judge(self, s: Ints, r: Ints, o: Ints) -> Judged:
        """Date candidates, and ask both questions at that date."""
        trained = self.trained
        begin, end = np.full(len(s), spans.OPEN_BEGIN, np.int64), np.full(len(s), spans.OPEN_END, np.int64)
        at = np.full(len(s), self.last), np.full(len(s), self.last)
        if trained.run.scorer.predicts_times and len(self._when):
            dated = trained.dating.predict(s, r, o, trained.calibration.when)
            begin, end = dated.begin, dated.end
            at = np.clip(begin, self.first, self.last), np.clip(end, self.first, self.last)
        known, both, features = self.who.known, np.ones(len(s)), []
        for direction in DIRECTIONS:
            given, answer = (s, o) if direction == "object" else (o, s)
            questions = Questions(direction, given, r, *at)
            raw, _ = self.who.raw_of(questions, answer)
            both *= trained.probability(questions, raw[:, None], known=known)[:, 0]
            answers = np.bincount(known.of(questions)[0], minlength=len(s))
            company = trained.company.factor(questions, known)
            features += [
                logit(raw),
                np.log1p(answers),
                np.log(np.maximum(company, RARE)),
                np.log1p(self._facts[direction][given]),
            ]
        features.append(self._together(s, o).astype(float))
        return Judged(s, r, o, begin, end, np.sqrt(both), np.column_stack(features))

    def _together(self, s: Ints, o: Ints) -> NDArray[np.bool_]:
        """Whether a known fact has both entities, in any order: (n,)."""
        pairs = [pair_key(s, o), pair_key(o, s)]
        return np.isin(pairs[0], self._pairs) | np.isin(pairs[1], self._pairs)

    def frame(self, ranked: Sequence[Candidate]) -> pl.DataFrame:
        """As a table with names, dates and reasons."""
        kb, timeline = self.trained.kb, self.trained.timeline
        rows = []
        for each in ranked:
            s, r, o = each.triple
            position = int(begin_position(timeline, [each.begin], [each.end])[0])
            why = [*self._between(s, o), *reasons_text(self.trained, s, r, o, position, most=1)]
            is_open = each.begin == spans.OPEN_BEGIN
            span = [None, None] if is_open else dates.write([each.begin, each.end], kb.granularity)
            names = kb.entities[s], kb.relations[r], kb.entities[o]
            reason = "; ".join(why) or "the model alone: no training fact tells more"
            rows.append((*names, *span, round(each.probability, 4), reason))
        return pl.DataFrame(rows, schema=SCHEMA, orient="row")

    def _between(self, s: int, o: int) -> list[str]:
        """What the KB states of the two entities together, the first fact of it: often the same from the other side."""
        kb = self.trained.kb
        for row in kb.facts.of_pair(s, o)[:1].tolist():
            fact = kb.facts[row : row + 1]
            one, other = kb.entities.label(int(fact.s[0])), kb.entities.label(int(fact.o[0]))
            when = self.trained.asking.span_text(int(fact.begin[0]), int(fact.end[0]))
            return [f"the KB has {one} {kb.relations.label(int(fact.r[0]))} {other}, {when}"]
        return []

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

    def stated(self, s: Ints, r: Ints, o: Ints) -> NDArray[np.bool_]:
        """Which pairs stand in the KB, at whatever time: (n,)."""
        known = self.who.known.facts
        query, fact = known.by_subject_relation.matches(pair_key(s, r))
        stated = np.zeros(len(s), np.bool_)
        stated[query[known.o[fact] == o[query]]] = True
        return stated
