"""What the other facts of an entity say about when a relation holds (the paper's relation pair score)."""

from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from timeplex.gadgets.base import LEAST_SIGMA, Gadget, GadgetOptions, Reason, register
from timeplex.gadgets.evidence import Evidence, to_numpy, to_torch
from timeplex.gadgets.gaps import between, density, distinct
from timeplex.kb.dates import Ints
from timeplex.kb.facts import Index, pair_key

Side = Literal[0, 1]
SUBJECT: Side = 0
OBJECT: Side = 1
Bools = NDArray[np.bool_]

LEAST = 1e-37
"""Less than any sum of weights (`_relative_weights`), for dividing 0 by 0."""

BLOCK = 4_000_000
"""So many densities are computed at once; a table of them takes 16 MB."""


class PairOptions(GadgetOptions):
    """Settings of the pair gadget."""

    penalty: float = Field(0.002, ge=0, description="Weight of Σ b² in the loss of phase 2.")


@register("pair")
class Pair(Gadget):
    """φ(s, r, o, t) = φ_sub(s, r, t) + φ_obj(o, r, t), each a weighted mean over the entity's facts fᵢ in that role,

        φ_sub = Σ_i (N(t − tᵢ | μ_{r rᵢ}, σ_{r rᵢ}) + b_{r rᵢ}) exp(w_{r rᵢ}) / Σ_j exp(w_{r rⱼ}),   rᵢ ≠ r,

    and 0 without such facts. μ and σ are mean and standard deviation of the gaps in the training facts and stay so;
    w and b are learned; there are four tables (relations, relations) for subjects and four for objects. The density of
    a pair of relations that no training entity has is 0.

    The published code differs: its Gaussian has height 1, and facts with rᵢ = r count, too (form = published-code).

    For all entities at once the numerators of a query (r, t) are a product A v: A, (entities, kinds), counts the facts
    of each entity by kind (rᵢ, tᵢ), and v holds (N + b) exp(w) for every kind. Equal queries are computed once.
    """

    options_type = PairOptions

    def __init__(self, evidence: Evidence, options: PairOptions) -> None:
        super().__init__(evidence, options)
        relations = evidence.relations
        found = [between(entity, evidence) for entity in (evidence.s, evidence.o)]
        count, mean, sigma = (np.stack([each[part] for each in found]) for part in range(3))
        # Each of these is (side, r, r′).
        self.cases: Tensor
        self.mean: Tensor
        self.sigma: Tensor
        self.register_buffer("cases", torch.from_numpy(count))
        self.register_buffer("mean", torch.from_numpy(np.where(count > 0, mean, 0.0)).float())
        floor = np.maximum(np.where(count > 0, sigma, 1.0), LEAST_SIGMA)
        self.register_buffer("sigma", torch.from_numpy(floor).float())
        self.weight = nn.Parameter(torch.full((2, relations, relations), 0.1))
        self.bias = nn.Parameter(torch.full((2, relations, relations), -0.2))
        self._kinds = tuple(_Kinds(entity, evidence) for entity in (evidence.s, evidence.o))

    def penalty(self) -> Tensor:
        """0.002 Σ b² (with the default setting)."""
        weight: float = self.options.penalty
        return weight * (self.bias**2).sum()

    def score_at(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor, own: Tensor | None = None) -> Tensor:
        """(n,) in and out."""
        when = to_torch(self.evidence.when(t), s)[:, None]
        return (self._means(SUBJECT, s, r, o, when, own) + self._means(OBJECT, s, r, o, when, own))[:, 0]

    def objects_at(self, s: Tensor, r: Tensor, t: Tensor, own: Tensor | None = None) -> Tensor:
        """(n, entities)."""
        when = to_torch(self.evidence.when(t), s)[:, None]
        rows = self._everyone(OBJECT, r, t) + self._means(SUBJECT, s, r, None, when, own)
        if not self._same_relation:
            return rows
        query, answer = self._answered(self.evidence.by_subject_relation, self.evidence.o, s, r, t, own)
        return self._corrected(rows, query, answer, (s[query], r[query], answer, t[query]), own)

    def subjects_at(self, r: Tensor, o: Tensor, t: Tensor, own: Tensor | None = None) -> Tensor:
        """(n, entities)."""
        when = to_torch(self.evidence.when(t), o)[:, None]
        rows = self._everyone(SUBJECT, r, t) + self._means(OBJECT, None, r, o, when, own)
        if not self._same_relation:
            return rows
        query, answer = self._answered(self.evidence.by_object_relation, self.evidence.s, o, r, t, own)
        return self._corrected(rows, query, answer, (answer, r[query], o[query], t[query]), own)

    def times(self, s: Tensor, r: Tensor, o: Tensor, own: Tensor | None = None) -> Tensor:
        """(n, instants)."""
        when = to_torch(self.evidence.instants, s).expand(len(s), -1)
        return self._means(SUBJECT, s, r, o, when, own) + self._means(OBJECT, s, r, o, when, own)

    def reasons(self, s: int, r: int, o: int, t: int) -> list[Reason]:
        """Every fact of the subject, and of the object, with its share of the mean."""
        subject, relation, target = (torch.tensor([number], device=self.bias.device) for number in (s, r, o))
        sides: tuple[tuple[Side, Literal["subject", "object"], Tensor], ...] = (
            (SUBJECT, "subject", subject),
            (OBJECT, "object", target),
        )
        found: list[Reason] = []
        for side, name, entity in sides:
            for query, fact in self._neighbours(side, entity, relation, most=max(1, len(self.evidence))):
                gap = self.evidence.instants[t] - self.evidence.t[fact]
                counts = ~self._itself(query, fact, subject, relation, target, None) | (gap != 0)
                fact, gap = fact[counts], gap[counts]
                other = to_torch(self.evidence.r[fact], relation)
                numerator, denominator = self._terms(side, relation, other, to_torch(gap, relation))
                shares = (numerator / denominator.sum()).tolist()
                rows = zip(self.evidence.rows[fact].tolist(), gap.tolist(), shares, strict=True)
                found += [Reason(row, name, *rest) for row, *rest in rows]
        return sorted(found, key=lambda reason: -abs(reason.value))

    # The parts ----------------------------------------------------------------------------------------------

    @property
    def _same_relation(self) -> bool:
        """Whether facts of the relation itself count."""
        return bool(self.options.form == "published-code")

    def _terms(self, side: Side, r: Tensor, other: Tensor, gap: Tensor) -> tuple[Tensor, Tensor]:
        """exp(w) (N(gap) + b) and exp(w) for pairs of relations; the arguments broadcast."""
        weight = _pick(self._relative_weights(side), r, other)
        height = density(gap, self.mean[side][r, other], self.sigma[side][r, other], normalised=not self._same_relation)
        return weight * (height * (self.cases[side][r, other] > 0) + _pick(self.bias[side], r, other)), weight

    def _relative_weights(self, side: Side) -> Tensor:
        """exp(w − max w) by (r, r′): weights are only compared among those of one r, so the maximum can be taken off.

        It is at least e⁻⁸⁰, so that facts of a relation that hardly counts still count where there are no others.
        """
        weight = self.weight[side]
        return torch.exp((weight - weight.detach().amax(1, keepdim=True)).clamp(min=-80))

    def _means(
        self, side: Side, s: Tensor | None, r: Tensor, o: Tensor | None, when: Tensor, own: Tensor | None
    ) -> Tensor:
        """The weighted means over the facts of the subjects, or of the objects, at times (n, k): (n, k).

        If only the entity of this side is known, only `own` is left out.
        """
        numerators, denominators = (self.bias.new_zeros(when.shape) for _ in range(2))
        entity = s if side == SUBJECT else o
        if entity is None:
            raise ValueError("the entity whose facts count is not given")
        for query, fact in self._neighbours(side, entity, r, most=max(1, BLOCK // max(1, when.shape[1]))):
            where, other = to_torch(query, r), to_torch(self.evidence.r[fact], r)[:, None]
            gap = when[where] - to_torch(self.evidence.t[fact], r)[:, None]
            numerator, denominator = self._terms(side, r[where][:, None], other, gap)
            denominator = denominator.expand_as(numerator)
            if self._same_relation:
                itself = self._itself(query, fact, s, r, o, own)
                left_out = to_torch(itself, r)[:, None] & ((gap == 0) | (own is not None))
                numerator, denominator = numerator.masked_fill(left_out, 0), denominator.masked_fill(left_out, 0)
            numerators = numerators.index_add(0, where, numerator)
            denominators = denominators.index_add(0, where, denominator)
        return _ratio(numerators, denominators)

    def _neighbours(self, side: Side, entity: Tensor, r: Tensor, most: int) -> Iterator[tuple[Ints, Ints]]:
        """All pairs (query, fact of its entity) that count, about `most` at a time, in whole queries."""
        evidence = self.evidence
        index = evidence.by_subject if side == SUBJECT else evidence.by_object
        numbers, relation = to_numpy(entity, r)
        start, stop = index.ranges(numbers)
        block = np.cumsum(stop - start) // most  # a few entities have very many facts
        for queries in np.split(np.arange(len(numbers)), np.flatnonzero(np.diff(block)) + 1):
            position, fact = index.matches(numbers[queries])
            query = queries[position]
            if not self._same_relation:
                kept = evidence.r[fact] != relation[query]
                query, fact = query[kept], fact[kept]
            yield query, fact

    def _itself(
        self, query: Ints, fact: Ints, s: Tensor | None, r: Tensor, o: Tensor | None, own: Tensor | None
    ) -> Bools:
        """Which facts say the very triple that is asked for, or, with `own`, are the query's own."""
        if own is not None:
            itself: Bools = fact == to_numpy(own)[0][query]
            return itself
        if s is None or o is None:
            return np.zeros(len(fact), np.bool_)
        subject, relation, target = to_numpy(s, r, o)
        same: Bools = self.evidence.s[fact] == subject[query]
        same &= (self.evidence.r[fact] == relation[query]) & (self.evidence.o[fact] == target[query])
        return same

    def _everyone(self, side: Side, r: Tensor, t: Tensor) -> Tensor:
        """The mean over the facts of every entity in a role, nothing left out: (n, entities)."""
        kinds = self._kinds[side]
        keys, where = torch.unique(torch.stack([r, t], 1), dim=0, return_inverse=True)
        relation, when = keys[:, 0], to_torch(self.evidence.when(keys[:, 1]), r)
        step = max(1, BLOCK // max(1, len(kinds.relation), kinds.entities))
        parts = [
            self._ratios(side, relation[start : start + step], when[start : start + step])
            for start in range(0, len(keys), step)
        ]
        return torch.cat(parts).index_select(0, where) if parts else self.bias.new_zeros(0, kinds.entities)

    def _ratios(self, side: Side, r: Tensor, when: Tensor) -> Tensor:
        """The means of every entity for distinct queries (r, when): (n, entities)."""
        kinds = self._kinds[side]
        other = to_torch(kinds.relation, r)
        gap = when[:, None] - to_torch(kinds.when, r)[None, :]
        numerator, _ = self._terms(side, r[:, None], other[None, :], gap)
        # The denominators do not depend on time, so that one for each relation is enough.
        relations, which = torch.unique(r, return_inverse=True)
        weights = self._relative_weights(side)[relations]
        if not self._same_relation:
            numerator = numerator * (r[:, None] != other[None, :])
            weights = weights.scatter(1, relations[:, None], 0.0)
        by_kind, by_relation = (matrix.to(numerator.dtype) for matrix in kinds.counts(r.device))
        numerators = torch.sparse.mm(by_kind, numerator.T).T
        denominators = torch.sparse.mm(by_relation, weights.T).T.contiguous()
        return _ratio(numerators, denominators.index_select(0, which))

    def _answered(
        self, index: Index, answers: Ints, given: Tensor, r: Tensor, t: Tensor, own: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Which entities are known to answer a question at its own time, or by its own fact: (query, answer)."""
        query, fact = index.matches(pair_key(*to_numpy(given, r)))
        if own is None:
            itself = self.evidence.t[fact] == self.evidence.when(t)[query]
        else:
            itself = fact == to_numpy(own)[0][query]
        # Several facts may say the same, and what is put twice would have its gradient twice.
        query, answer = np.unique(np.stack([query[itself], answers[fact[itself]]]), axis=1)
        return to_torch(query, r), to_torch(answer, r)

    def _corrected(
        self,
        rows: Tensor,
        query: Tensor,
        answer: Tensor,
        fact: tuple[Tensor, Tensor, Tensor, Tensor],
        own: Tensor | None,
    ) -> Tensor:
        """Put right the scores of facts that were evidence for themselves."""
        scores = self.score_at(*fact, None if own is None else own[query])
        return rows.index_put_((query, answer), scores)


class _Kinds:
    """The facts of every entity in one role, counted by kind (relation, time), and by relation alone."""

    def __init__(self, entity: Ints, evidence: Evidence) -> None:
        (self.relation, self.when), kind = distinct(evidence.r, evidence.t)
        self.entities = evidence.entities
        self._matrices = (
            _counts(entity, kind, (evidence.entities, len(self.when))),
            _counts(entity, evidence.r, (evidence.entities, evidence.relations)),
        )

    def counts(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """(entities, kinds) and (entities, relations), sparse."""
        if self._matrices[0].device != device:
            self._matrices = (self._matrices[0].to(device), self._matrices[1].to(device))
        return self._matrices


def _counts(row: Ints, column: Ints, shape: tuple[int, int]) -> Tensor:
    """How often each row meets each column, as a sparse matrix."""
    (rows, columns), which = distinct(row, column)
    where, number = torch.from_numpy(np.stack([rows, columns])), torch.from_numpy(np.bincount(which)).float()
    return torch.sparse_coo_tensor(where, number, shape, check_invariants=True, is_coalesced=True)


def _pick(table: Tensor, r: Tensor, other: Tensor) -> Tensor:
    """table[r, other], where the indices broadcast; the gradient is the same each time, also with several threads."""
    place = r * table.shape[1] + other
    return table.flatten().index_select(0, place.flatten()).view(place.shape)


def _ratio(numerator: Tensor, denominator: Tensor) -> Tensor:
    """numerator / denominator, 0 where both are."""
    return numerator / denominator.clamp(min=LEAST)
