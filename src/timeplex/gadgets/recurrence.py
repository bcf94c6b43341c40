"""How likely a fact comes again, so long after it held before (the paper's recurrence score)."""

import math

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from timeplex.gadgets.base import LEAST_SIGMA, Gadget, GadgetOptions, Reason, register, verdict
from timeplex.gadgets.evidence import Evidence, density, recurring, to_numpy, to_torch
from timeplex.kb.facts import pair_key
from timeplex.models.scorer import Direction
from timeplex.text import Describer, counted
from timeplex.typing import Ints

NONE = np.iinfo(np.int64).max
"""The gap where there is no evidence."""


class RecurrenceOptions(GadgetOptions):
    """Settings of the recurrence gadget."""

    minimum: int = Field(
        1, ge=1, le=10**9, description="Pairs (s, o) that must recur for a relation to count as recurrent (K)."
    )


@register("recurrence")
class Recurrence(Gadget):
    """φ(s, r, o, t) = w_r N(δ | μ_r, σ_r) + b_r, where δ = min |t − t′| over the facts (s, r, o, t′) with t′ ≠ t.

    Without such a fact the score is 0; for a relation that does not recur it is b_r. μ and σ begin as mean and
    standard deviation of the gaps between consecutive times of a triple, and are learned with w and b.

    The published code differs: its Gaussian has height 1, μ and σ stay as they are (form = published-code).
    """

    options_type = RecurrenceOptions

    def __init__(self, evidence: Evidence, options: RecurrenceOptions) -> None:
        super().__init__(evidence, options)
        pairs, mean, deviation = recurring(evidence)
        recurs = pairs >= options.minimum
        self.pairs = pairs  # what sentences count; it follows from the evidence, so it is not saved
        self.recurs: Tensor
        self.register_buffer("recurs", torch.from_numpy(recurs))
        learned = options.form == "paper"
        self.mean = nn.Parameter(torch.from_numpy(np.where(recurs, mean, 0.0)).float(), requires_grad=learned)
        self.log_sigma = nn.Parameter(
            torch.from_numpy(np.log(np.where(recurs, np.maximum(deviation, LEAST_SIGMA), 1.0))).float(),
            requires_grad=learned,
        )
        self.weight = nn.Parameter(torch.ones(evidence.relations))
        self.bias = nn.Parameter(torch.full((evidence.relations,), -0.1))

    @property
    def sigma(self) -> Tensor:
        """σ_r, (relations,)."""
        return self.log_sigma.clamp(min=math.log(LEAST_SIGMA)).exp()  # in this order σ can leave the floor

    def score_at(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor, own: Tensor | None = None) -> Tensor:
        subject, relation, target = to_numpy(s, r, o)
        query, fact = self.evidence.of_triples(subject, relation, target)
        gap = self._gaps(query, fact, t, own)
        nearest = np.full(len(s), NONE)
        np.minimum.at(nearest, query, gap)
        found = np.flatnonzero(nearest < NONE)
        scores = self.bias.new_zeros(len(s))
        return scores.index_put_((to_torch(found, s),), self._value(relation[found], nearest[found]))

    def objects_at(self, s: Tensor, r: Tensor, t: Tensor, own: Tensor | None = None) -> Tensor:
        return self._everyone("object", s, r, t, own)

    def subjects_at(self, r: Tensor, o: Tensor, t: Tensor, own: Tensor | None = None) -> Tensor:
        return self._everyone("subject", o, r, t, own)

    def times(self, s: Tensor, r: Tensor, o: Tensor, own: Tensor | None = None) -> Tensor:
        instants = self.evidence.instants
        subject, relation, target = to_numpy(s, r, o)
        query, fact = self.evidence.of_triples(subject, relation, target)
        if own is not None:
            kept = fact != to_numpy(own)[0][query]
            query, fact = query[kept], fact[kept]
        scores = self.bias.new_zeros(len(s), len(instants))
        if len(query) == 0:
            return scores
        nearest = _nearest(query, self.evidence.t[fact], instants)
        asked = np.unique(query)
        row, position = np.nonzero(nearest < NONE)
        query = asked[row]
        values = self._value(relation[query], nearest[row, position])
        return scores.index_put_((to_torch(query, s), to_torch(position, s)), values)

    def reasons(self, s: int, r: int, o: int, t: int) -> list[Reason]:
        """The nearest fact alone; of two equally near ones the earlier."""
        ask = [torch.tensor([number]) for number in (s, r, o, t)]
        score = float(self.score_at(*(each.to(self.bias.device) for each in ask)).detach()[0])
        _, fact = self.evidence.of_triples(*to_numpy(*ask[:3]))
        gap = int(self.evidence.instants[t]) - self.evidence.t[fact]
        fact, gap = fact[gap != 0], gap[gap != 0]
        if len(fact) == 0:
            return []
        nearest = np.lexsort((self.evidence.t[fact], np.abs(gap)))[0]
        return [Reason(int(self.evidence.rows[fact[nearest]]), "both", int(gap[nearest]), score)]

    def sentence(self, reason: Reason, relation: int, words: Describer) -> str:
        """The other time, and whether and after how long the relation recurs."""
        fact, name = words.dated(reason.fact), words.relation(relation)
        if not bool(self.recurs[relation]):
            return f"{fact}, which is another time; {name} does not recur: does not fit"
        mean, sigma = float(self.mean[relation].detach()), float(self.sigma[relation].detach())
        cases, gap = int(self.pairs[relation]), abs(reason.gap)
        usual = f"{name} recurs after {words.spread(max(mean, 0.0), sigma, cases)} ({counted(cases, 'case')})"
        return f"{fact}; {usual}, here {words.apart(reason.gap)}: {verdict(gap, mean, sigma)}"

    def add_to(self, rows: Tensor, direction: Direction, given: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """Few entities have a score, so that only their cells are touched."""
        where, values = self._cells(direction, given, r, t, None)
        return rows.index_put_(where, self.strength * values, accumulate=True)

    def _everyone(self, direction: Direction, given: Tensor, r: Tensor, t: Tensor, own: Tensor | None) -> Tensor:
        """Scores of all entities, zero but for those that are known to have answered the question at another time."""
        scores = self.bias.new_zeros(len(given), self.evidence.entities)
        return scores.index_put_(*self._cells(direction, given, r, t, own))

    def _cells(
        self, direction: Direction, given: Tensor, r: Tensor, t: Tensor, own: Tensor | None
    ) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """The cells (question, entity) that are not zero, each once, and their scores."""
        entities, (index, answers) = self.evidence.entities, self.evidence.by_question(direction)
        entity, relation = to_numpy(given, r)
        query, fact = index.matches(pair_key(entity, relation))
        gap = self._gaps(query, fact, t, own)
        query, fact, gap = (column[gap < NONE] for column in (query, fact, gap))
        cells, cell = np.unique(query * entities + answers[fact], return_inverse=True)
        nearest = np.full(len(cells), NONE)
        np.minimum.at(nearest, cell, gap)
        query = cells // entities
        return (to_torch(query, given), to_torch(cells % entities, given)), self._value(relation[query], nearest)

    def _gaps(self, query: Ints, fact: Ints, t: Tensor, own: Tensor | None) -> Ints:
        """|t − t′| of pairs of query and fact, NONE for those that do not count."""
        gap: Ints = np.abs(self.evidence.when(t)[query] - self.evidence.t[fact])
        gap[gap == 0] = NONE
        if own is not None:
            gap[fact == to_numpy(own)[0][query]] = NONE
        return gap

    def _value(self, relation: Ints, gap: Ints) -> Tensor:
        """w_r N(δ | μ_r, σ_r) + b_r, or b_r alone: (n,) in and out."""
        r = to_torch(relation, self.bias)
        # index_select has the same gradient each time, also with several threads.
        mean, sigma, weight, bias = (
            table.index_select(0, r) for table in (self.mean, self.sigma, self.weight, self.bias)
        )
        height = density(to_torch(gap, r), mean, sigma, normalised=self.options.form == "paper")
        return weight * height * self.recurs[r] + bias


def _nearest(query: Ints, when: Ints, instants: Ints) -> Ints:
    """How far the nearest other time of each distinct query is from each instant, NONE if there is none: (k, instants).

    query and when, (n,): all times. Each instant finds its neighbours among the sorted times of its query.
    """
    low, high = min(int(when.min()), int(instants[0])), max(int(when.max()), int(instants[-1]))
    width = high - low + 2
    asked, number = np.unique(query, return_inverse=True)
    keys = np.unique(number * width + when - low)
    wanted = np.arange(len(asked))[:, None] * width + instants - low
    before, after = np.searchsorted(keys, wanted, side="left") - 1, np.searchsorted(keys, wanted, side="right")
    nearest = np.full(wanted.shape, NONE)
    for place in (before, after):
        there = (place >= 0) & (place < len(keys))
        place = np.where(there, place, 0)
        there &= keys[place] // width == np.arange(len(asked))[:, None]
        nearest = np.where(there, np.minimum(nearest, np.abs(wanted - keys[place])), nearest)
    return nearest
