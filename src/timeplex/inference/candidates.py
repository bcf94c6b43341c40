"""Facts that may be missing: which to try, when they would hold, and what is known of each.

All (s, r, o, t) cannot be tried. For every entity that a relation has in the training facts, in either role, the
question of the other entity is asked at a few dates of its own (`TIMES` of its facts, evenly chosen), and the `TOP`
best answers that are not known at any time are candidates. A candidate is then judged by itself, whatever question it
came from: `when` dates it, and both questions are asked at that date. Memory is that of a block of questions.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from timeplex.counting import counted
from timeplex.errors import InputError
from timeplex.evaluation.queries import DIRECTIONS, Direction
from timeplex.inference.maps import logit
from timeplex.inference.who import Questions, Who
from timeplex.kb import spans
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
        self.who = trained.who if known is None else Who(trained.run, known)
        self.share = 1.0
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
                questions = Questions(direction, given[which], np.full(len(which), r), when, when)
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
            dated = trained.dating.predict(s, r, o, trained.calibration.when)
            begin, end = dated.begin, dated.end
            at = np.clip(begin, self.first, self.last), np.clip(end, self.first, self.last)
        known, both, features = self.who.known, np.ones(len(s)), []
        for direction in DIRECTIONS:
            given, answer = (s, o) if direction == "object" else (o, s)
            questions = Questions(direction, given, r, *at)
            raw, _ = self.who.raw_of(questions, answer)
            both *= trained.probability(questions, raw[:, None], known=known)[:, 0]
            answers = known.count(questions)
            company = trained.company.factor(questions, known)
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
