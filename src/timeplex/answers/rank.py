"""Who answers (s, r, ?, T) or (?, r, o, T): scores, raw probabilities and the best candidates, on numbers.

    φ(s, r, o, T) = mean of the model's φ(s, r, o, t) over t ∈ T + Σ strength · gadget(s, r, o, t_b),

where t_b is the begin of T. The mean ranks as the paper's sum does, but for the gadgets' share, and its softmax does
not depend on how long T is. The raw probability of a candidate e is that of e against all that could be meant instead:

    raw(e) = exp φ(e) / (exp φ(e) + Σ exp φ(f)),   f ≠ e over the candidates that are not known to hold at T.

So a known answer takes nothing away from the others, and has itself the probability that it would have if it were not
known. Entities without a training fact are no candidates: nothing was learned of them.
"""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from timeplex.kb.facts import Facts, pair_key
from timeplex.kb.spans import close
from timeplex.models.scorer import DIRECTIONS, Direction
from timeplex.training.run import TrainedRun
from timeplex.typing import Bools, Codes, Floats, Ints

BLOCK_BYTES = 32_000_000
"""The most memory that one table of scores may take; up to four are there at a time (with gadgets)."""

MOST_ANSWERS = 1 << 22
"""About so many known answers are looked at together."""

PIECES = 4
"""Rows are searched in pieces if there are so many times as many as answers are wanted."""


@dataclass(frozen=True)
class EntityQueries:
    """Queries in one direction: the given entity, the relation and a span of calendar instants; arrays (n,).

    at_a_time  whether the span is not that of a fact but a time at which it held: it may have begun long before, (n,)
    """

    direction: Direction
    given: Ints
    r: Ints
    begin: Ints
    end: Ints
    at_a_time: Bools = field(default_factory=lambda: np.empty(0, np.bool_))

    def __post_init__(self) -> None:
        if not len(self.at_a_time):
            object.__setattr__(self, "at_a_time", np.zeros(len(self.given), np.bool_))

    def __len__(self) -> int:
        return len(self.given)

    def rows(self, part: slice | Ints) -> "EntityQueries":
        """Some of the questions."""
        given, r, begin, end = (column[part] for column in (self.given, self.r, self.begin, self.end))
        return EntityQueries(self.direction, given, r, begin, end, self.at_a_time[part])

    @classmethod
    def of(cls, facts: Facts, direction: Direction, first: int, last: int) -> "EntityQueries":
        """What facts ask for if one of their entities is hidden; open ends run to the instants `first` and `last`."""
        s, r, o = (np.asarray(column, np.int64) for column in (facts.s, facts.r, facts.o))
        begin = np.clip(np.asarray(facts.begin, np.int64), first, last)
        end = np.clip(np.asarray(facts.end, np.int64), first, last)
        return cls(direction, s if direction == "object" else o, r, begin, end)


@dataclass(frozen=True)
class Ranked:
    """The best candidates of each question, best first: (n, k) each.

    entity  its number, −1 where there are no more candidates
    score   φ, up to what all candidates of the question have alike
    raw     the raw probability
    holds   whether it is known to hold at an instant of T
    """

    entity: Ints
    score: Floats
    raw: Floats
    holds: Bools


class KnownAnswers:
    """Which answers are stated, and when."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts

    def answers(self, direction: Direction) -> Codes:
        """The entity that each fact is an answer with."""
        return self.facts.o if direction == "object" else self.facts.s

    def of(self, questions: EntityQueries) -> tuple[Ints, Ints, Bools]:
        """All pairs (question, fact that answers it at some time), by question, and whether at its time."""
        if questions.direction == "object":
            query, fact = self.facts.by_subject_relation.matches(pair_key(questions.given, questions.r))
        else:
            query, fact = self.facts.by_relation_object.matches(pair_key(questions.r, questions.given))
        meets = (self.facts.begin[fact] <= questions.end[query]) & (self.facts.end[fact] >= questions.begin[query])
        return query, fact, meets

    def stated(self, question: EntityQueries) -> set[int]:
        """The answers to one question that are known to hold at its time."""
        _, fact, meets = self.of(question)
        return set(self.answers(question.direction)[fact[meets]].tolist())

    def by_parts(self, questions: EntityQueries) -> Iterator[tuple[slice, Ints, Ints, Bools]]:
        """`of` for some questions at a time, so that not too many answers come at once: which, and what `of` says."""
        start, stop = self._ranges(questions)
        block = np.cumsum(stop - start) // MOST_ANSWERS
        cuts = [0, *(np.flatnonzero(np.diff(block)) + 1).tolist(), len(questions)]
        for low, high in itertools.pairwise(cuts):
            yield slice(low, high), *self.of(questions.rows(slice(low, high)))

    def count(self, questions: EntityQueries) -> Ints:
        """How many facts answer each question at some time: (n,)."""
        start, stop = self._ranges(questions)
        return stop - start

    def _ranges(self, questions: EntityQueries) -> tuple[Ints, Ints]:
        if questions.direction == "object":
            return self.facts.by_subject_relation.ranges(pair_key(questions.given, questions.r))
        return self.facts.by_relation_object.ranges(pair_key(questions.r, questions.given))


class Ranker(ABC):
    """Something that names candidates; `known` are the facts that count as known, `learned` those it learned from."""

    def __init__(self, known: Facts, learned: Facts, entities: int, device: torch.device) -> None:
        self.known = KnownAnswers(known)
        self.entities = entities
        self._learned, self._device = learned, device

    @cached_property
    def unseen(self) -> Tensor:
        """The entities of which nothing was learned, (m,)."""
        return torch.from_numpy(np.flatnonzero(~self._learned.mentioned(self.entities))).to(self._device)

    @abstractmethod
    def scores(self, questions: EntityQueries) -> Tensor:
        """φ of all entities up to what they have all alike, −∞ for those that are no candidates: (n, entities)."""

    @torch.inference_mode()
    def rank(self, questions: EntityQueries, k: int, *, hide_known: bool = False) -> Ranked:
        """The k best candidates of each question, of two with the same score the one with the smaller number.

        With `hide_known` those that are known to hold at the time are left out.
        """
        k = min(k, self.entities)
        shape = (len(questions), k)
        entity, score = np.empty(shape, np.int64), np.empty(shape)
        raw, holds = np.empty(shape), np.empty(shape, np.bool_)
        for part, rows, query, answer in self._blocks(questions):
            values, found = _best(rows, k) if not hide_known else (None, None)
            rows[query, answer] = -torch.inf
            if values is None or found is None:
                values, found = _best(rows, k)
            held = rows.gather(1, found) == -torch.inf  # what stayed in `values` and is out of the row was known
            others = _log_sum(rows, values.masked_fill(held, -torch.inf).amax(1, keepdim=True))
            values = values.double()
            # A candidate that is not known is part of the sum already.
            total = torch.where(held, torch.logaddexp(others, values), others)
            found[values == -torch.inf] = -1
            entity[part], score[part] = found.cpu().numpy(), values.cpu().numpy()
            raw[part] = torch.exp(values - total).nan_to_num(0.0).cpu().numpy()
            holds[part] = (held & (found >= 0)).cpu().numpy()
        return Ranked(entity, score, raw, holds)

    @torch.inference_mode()
    def raw_of(self, questions: EntityQueries, entity: Ints) -> tuple[Floats, Ints]:
        """For one candidate a question, (n,): its raw probability and its rank among those not known at the time.

        The rank counts the candidates with a higher score; an entity without a training fact has probability 0.
        """
        raw, rank = np.empty(len(questions)), np.empty(len(questions), np.int64)
        for part, rows, query, answer in self._blocks(questions):
            asked = torch.from_numpy(np.ascontiguousarray(entity[part])).to(rows.device)[:, None]
            value = rows.gather(1, asked)
            rows[query, answer] = -torch.inf
            rows.scatter_(1, asked, -torch.inf)
            rank[part] = 1 + (rows > value).sum(1).cpu().numpy()
            others = torch.logsumexp(rows, 1).double()
            alone = value[:, 0].double()
            raw[part] = torch.exp(alone - torch.logaddexp(others, alone)).nan_to_num(0.0).cpu().numpy()
        return raw, rank

    def _blocks(self, questions: EntityQueries) -> Iterator[tuple[slice, Tensor, Tensor, Tensor]]:
        """Some questions at a time: which, their scores, and the cells (question, answer) known at their time."""
        size = max(1, BLOCK_BYTES // (4 * self.entities))
        for start in range(0, len(questions), size):
            whole = questions.rows(slice(start, start + size))
            for part, query, fact, meets in self.known.by_parts(whole):
                answer = self.known.answers(whole.direction)[fact[meets]].astype(np.int64)
                rows, known = (torch.from_numpy(column).to(self._device) for column in (query[meets], answer))
                yield slice(start + part.start, start + part.stop), self.scores(whole.rows(part)), rows, known


class EntityRanker(Ranker):
    """A trained run as something that names candidates."""

    def __init__(self, run: TrainedRun, known: Facts) -> None:
        super().__init__(known, run.kb.train, len(run.kb.entities), next(run.model.parameters()).device)
        self.run = run

    @torch.inference_mode()
    def scores(self, questions: EntityQueries) -> Tensor:
        """φ of all entities up to what they have all alike, −∞ for those that are no candidates: (n, entities)."""
        given, r, first, last = (
            torch.from_numpy(np.ascontiguousarray(column)).to(self._device)
            for column in (questions.given, questions.r, *self.positions(questions))
        )
        rows = self.run.scorer.candidates(questions.direction, given, r, (first, last))
        return rows.index_fill_(1, self.unseen, -torch.inf) if len(self.unseen) else rows

    def positions(self, questions: EntityQueries) -> tuple[Ints, Ints]:
        """Where the spans lie on the timeline, as the evaluation places them (`PlacedFacts.of`)."""
        first, last = self.run.timeline.positions((questions.begin, questions.end))
        last = np.maximum(last, 0)
        return np.minimum(first, last), last


def _log_sum(rows: Tensor, most: Tensor) -> Tensor:
    """log Σ exp of each row, (n, 1); `most` is its highest score, or −∞ if that is not known; the rows are lost."""
    if bool((most == -torch.inf).any()):
        most = rows.amax(1, keepdim=True).clamp(min=torch.finfo(rows.dtype).min)  # a row may have no candidates
    return rows.sub_(most).exp_().sum(1, keepdim=True).double().log() + most.double()


def _best(rows: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k highest scores of each row and where they stand: (n, k) each; of equal ones the first come first."""
    values, found = _highest(rows, k)
    last = values[:, -1:]
    chosen, alike = (values == last).sum(1), (rows == last).sum(1)
    for row in torch.nonzero((alike > chosen) & (last[:, 0] > -torch.inf)).flatten().tolist():
        count = int(chosen[row])
        found[row, k - count :] = torch.nonzero(rows[row] == last[row]).flatten()[:count]
    if k > 1 and bool((values[:, 1:] == values[:, :-1]).any()):
        found, order = torch.sort(found, dim=1)
        values, again = torch.sort(values.gather(1, order), dim=1, descending=True, stable=True)
        found = found.gather(1, again)
    return values, found


def _highest(rows: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """`torch.topk`, several times as fast for long rows: the k highest lie in the k pieces with the highest maxima."""
    n, length = rows.shape
    size = int(length**0.5)
    pieces = length // size
    if pieces < PIECES * k:
        return torch.topk(rows, k, dim=1)
    best = torch.topk(rows[:, : pieces * size].view(n, pieces, size).amax(2), k, dim=1).indices
    places = (best[:, :, None] * size + torch.arange(size, device=rows.device)).flatten(1)
    rest = torch.arange(pieces * size, length, device=rows.device).expand(n, -1)
    places = torch.cat([places, rest], 1)
    values, found = torch.topk(rows.gather(1, places), k, dim=1)
    return values, places.gather(1, found)


class Coexistence:
    """Shares of facts that have company, by direction and relation; instants from `first` to `last`."""

    def __init__(self, train: Facts, relations: int, first: int, last: int) -> None:
        self._edges = first, last
        begin, end = close(train.span, first, last)
        self.share: dict[Direction, Floats] = {}
        for direction in DIRECTIONS:
            question = pair_key(train.s if direction == "object" else train.o, train.r)
            accompanied = holding(question, begin, end, (begin + end) // 2) > 1
            overall = accompanied.mean() if len(train) else 1.0
            facts, with_company = (np.bincount(train.r, weight, relations) for weight in (None, accompanied))
            self.share[direction] = (with_company + overall) / (facts + 1)

    def factor(self, questions: EntityQueries, known: KnownAnswers) -> Floats:
        """What the probabilities of new answers are multiplied with: 1 where none is known at the middle, (n,)."""
        answered = np.zeros(len(questions), np.bool_)
        middle = (questions.begin + questions.end) // 2
        for part, query, fact, _ in known.by_parts(questions):
            begin, end = close((known.facts.begin[fact], known.facts.end[fact]), *self._edges)
            at = part.start + query
            answered[at[(begin <= middle[at]) & (middle[at] <= end)]] = True
        return np.where(answered, self.share[questions.direction][questions.r], 1.0)


def holding(question: Ints, begin: Ints, end: Ints, at: Ints) -> Ints:
    """How many facts of the same question, itself among them, hold at an instant of each: all (n,).

    Those that have begun less those that have ended, each found by one search among sorted keys.
    """
    _, group = np.unique(question, return_inverse=True)
    least = int(min(begin.min(initial=0), at.min(initial=0)))
    width = int(max(end.max(initial=0), at.max(initial=0))) - least + 2
    key = group * width + at - least
    begun = np.searchsorted(np.sort(group * width + begin - least), key, side="right")
    ended = np.searchsorted(np.sort(group * width + end - least), key, side="left")
    return np.asarray(begun - ended)
