"""Questions whose answers are known, with pools of candidates that weights are learned from."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from timeplex.kb import spans
from timeplex.kb.facts import Facts, Index, pair_key, split_key
from timeplex.patterns.base import Evidence, LinkQueries
from timeplex.patterns.loglinear import Pools
from timeplex.typing import Bools, Features, Floats, Ints

Asks = Literal["span", "begin"]
"""Whether questions tell their whole span, or only when it begins (as `published-code` does)."""

BLOCK = 32
"""Questions that are asked at once: a table of features of all entities is large."""
FORGIVEN = 1024
"""Questions whose known answers are looked up at once."""
MOST_ANSWERS = 20_000_000
"""The known answers of all questions together: there are no more questions than have so many."""


@dataclass(frozen=True, eq=False)
class Questions:
    """Questions with right answers; `fact` is the number of the fact that each was made of.

    Of the other known answers, `answer` of question `question` counts only with the share `counts` of its time at which
    it is not known to hold. `seen`, (entities,), says who has a fact in the evidence: others are no candidates.
    """

    queries: LinkQueries
    gold: Ints
    fact: Ints
    question: Ints
    answer: Ints
    counts: Floats
    seen: Bools

    @classmethod
    def of(
        cls,
        facts: Facts,
        known: Evidence,
        evidence: Evidence,
        asks: Asks,
        most: int,
        chance: np.random.Generator,
        *,
        in_order: bool = False,
    ) -> "Questions":
        """Both directions of facts, asked of the evidence, at most so many by chance; right answers are seen in it."""
        pair = [LinkQueries.of(facts, direction, evidence.relations) for direction in ("object", "subject")]
        columns = (np.concatenate(each) for each in zip(*((q.x, q.r, q.begin, q.end) for q in pair), strict=True))
        queries = LinkQueries(*columns)
        gold = np.concatenate([facts.o, facts.s]).astype(np.int64)
        fact = np.tile(np.arange(len(facts)), 2)
        seen = evidence.facts.mentioned(evidence.entities)
        rows = np.flatnonzero(seen[gold])
        rows = rows[chance.permutation(len(rows))[:most]]
        start, stop = Index(pair_key(known.x, known.r)).ranges(pair_key(queries.x[rows], queries.r[rows]))
        rows = rows[np.cumsum(stop - start) <= MOST_ANSWERS]
        rows = np.sort(rows) if in_order else rows
        queries, gold = queries[rows], gold[rows]
        return cls(asked_as(queries, asks), gold, fact[rows], *forgiven(queries, gold, known), seen)

    def __len__(self) -> int:
        return len(self.queries)

    def __getitem__(self, rows: Any) -> "Questions":
        rows = np.arange(len(self))[rows]
        place = np.full(len(self), -1)
        place[rows] = np.arange(len(rows))
        keep = place[self.question] >= 0
        others = (place[self.question[keep]], self.answer[keep], self.counts[keep])
        return Questions(self.queries[rows], self.gold[rows], self.fact[rows], *others, self.seen)

    def offsets(self, entities: int) -> Floats:
        """The logarithm of how much each entity counts beside the right answer: (n, entities)."""
        counts = np.tile(self.seen.astype(np.float64), (len(self), 1))
        counts[self.question, self.answer] *= self.counts
        with np.errstate(divide="ignore"):
            return np.log(counts)

    def pools(self, rows: Features, score: Floats | None, best: int, others: int, rng: np.random.Generator) -> Pools:
        """Pools from the features of all entities: the right answer, the best by score, others from the rest."""
        entities, some = rows.shape[2], np.arange(len(self))[:, None]
        offset = self.offsets(entities)
        offset[some, self.gold[:, None]] = -np.inf  # it has a place of its own
        pool, counts = [self.gold[:, None]], [np.zeros((len(self), 1))]
        for number, order in ((best, score), (others, rng.random(offset.shape))):
            if order is None:
                continue
            left = (offset > -np.inf).sum(1, keepdims=True)
            chosen = best_of(np.where(offset > -np.inf, order, -np.inf), number)
            count = np.take_along_axis(offset, chosen, 1)
            if order is not score:  # these stand for all that are left
                count += np.log(np.maximum(left, 1) / np.maximum((count > -np.inf).sum(1, keepdims=True), 1))
            offset[some, chosen] = -np.inf
            pool.append(np.pad(chosen, ((0, 0), (0, number - chosen.shape[1]))))
            counts.append(np.pad(count, ((0, 0), (0, number - count.shape[1])), constant_values=-np.inf))
        features = np.take_along_axis(rows, np.concatenate(pool, 1)[:, None], 2).transpose(0, 2, 1)
        return Pools(np.ascontiguousarray(features), np.concatenate(counts, 1).astype(np.float32), self.queries.r)


def forgiven(queries: LinkQueries, gold: Ints, known: Evidence) -> tuple[Ints, Ints, Floats]:
    """Other known answers: (question, answer, 1 − share of the question's time at which it is known to hold)."""
    index = Index(pair_key(known.x, known.r))
    # An entity may have very many facts of a relation, at whatever time: some questions at a time.
    parts = [_forgiven(queries[some], gold[some], known, index) for some in blocks(len(queries), FORGIVEN)]
    question = [part[0] + start for start, part in zip(range(0, len(queries), FORGIVEN), parts, strict=True)]
    none = np.empty(0, np.int64)
    return (
        np.concatenate([none, *question]),
        np.concatenate([none, *(part[1] for part in parts)]),
        np.concatenate([np.empty(0), *(part[2] for part in parts)]),
    )


def _forgiven(queries: LinkQueries, gold: Ints, known: Evidence, index: Index) -> tuple[Ints, Ints, Floats]:
    question, row = index.matches(pair_key(queries.x, queries.r))
    keep = known.y[row] != gold[question]
    question, row = question[keep], row[keep]
    span = spans.close((queries.begin, queries.end), known.first, known.last)
    begin, end = spans.close((known.begin[row], known.end[row]), known.first, known.last)
    shared = spans.intersection((begin, end), (span[0][question], span[1][question]))
    first, last, group = spans.union(shared, pair_key(question, known.y[row]))
    distinct, where = np.unique(group, return_inverse=True)
    question, answer = split_key(distinct)
    instants = np.bincount(where, weights=last - first + 1, minlength=len(distinct))
    length = np.maximum(span[1] - span[0] + 1, 1)[question]
    return question, answer, np.clip(1 - instants / length, 0, 1)


def best_of(scores: Floats, number: int) -> Ints:
    """The entities with the highest scores, highest first: (n, number)."""
    number = min(number, scores.shape[1])
    best = np.argpartition(-scores, number - 1, axis=1)[:, :number] if number else np.empty((len(scores), 0), np.int64)
    order = np.argsort(-np.take_along_axis(scores, best, 1), axis=1, kind="stable")
    return np.take_along_axis(best, order, 1)


def blocks(n: int, size: int = BLOCK) -> list[slice]:
    """Parts of so many questions that their tables fit in memory."""
    return [slice(start, min(start + size, n)) for start in range(0, n, size)]


def asked_as(queries: LinkQueries, asks: Asks) -> LinkQueries:
    """The questions, without their ends if these are not told."""
    if asks == "span":
        return queries
    return replace(queries, end=np.full(len(queries), spans.OPEN_END))
