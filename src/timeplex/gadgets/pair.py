"""What the other facts of an entity say about when a relation holds (the paper's relation pair score)."""

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from scipy.sparse import csr_array
from torch import Tensor, nn

from timeplex.gadgets.base import LEAST_SIGMA, Gadget, GadgetOptions, Reason, register, verdict
from timeplex.gadgets.evidence import Evidence, Meetings, density, distinct, meetings, to_numpy, to_torch
from timeplex.kb.facts import pair_key, split_key
from timeplex.models.scorer import Direction
from timeplex.text import Describer, counted
from timeplex.typing import Bools, Floats, Ints


class Kinds:
    """The facts of every entity in one role, counted by kind (relation, time), and by relation alone."""

    def __init__(self, entity: Ints, evidence: Evidence) -> None:
        (self.relation, self.when), kind = distinct(evidence.r, evidence.t)
        self.entities = evidence.entities
        self.by_kind = Counts(entity, kind, (evidence.entities, len(self.when)))
        self.by_relation = Counts(entity, evidence.r, (evidence.entities, evidence.relations))


class Counts:
    """How often each row meets each column: a sparse matrix."""

    def __init__(self, row: Ints, column: Ints, shape: tuple[int, int]) -> None:
        (rows, columns), which = distinct(row, column)
        number = np.bincount(which).astype(np.float32)
        where = torch.from_numpy(np.stack([rows, columns]))
        self._matrix = torch.sparse_coo_tensor(
            where, torch.from_numpy(number), shape, check_invariants=True, is_coalesced=True
        )
        self._on_processor = csr_array((number, (rows, columns)), shape=shape)

    def sums(self, values: Tensor) -> Tensor:
        """Σ over the columns of count · value: (n, columns) → (n, rows)."""
        if not torch.is_grad_enabled() and values.device.type == "cpu":
            # Many times as fast for one query, which is what people ask.
            return torch.from_numpy(np.ascontiguousarray((self._on_processor @ values.numpy().T).T))
        if self._matrix.device != values.device:
            self._matrix = self._matrix.to(values.device)
        summed: Tensor = torch.sparse.mm(self._matrix.to(values.dtype), values.T)
        return summed.T.contiguous()


class Kept:
    """What depends on the learned weights alone, once they are trained and stay as they are."""

    def __init__(self) -> None:
        self.values: dict[tuple[int, int], Tensor] = {}
        self._state: tuple[int, int] | None = None

    def stale(self, weight: Tensor) -> bool:
        """Whether nothing may be kept; what belongs to other weights is forgotten."""
        state = (weight.data_ptr(), weight._version)
        if weight.requires_grad or state != self._state:
            self.values.clear()
            self._state = state
        return weight.requires_grad


Side = Literal[0, 1]
SUBJECT: Side = 0
OBJECT: Side = 1
SIDES: dict[Direction, tuple[Side, Side]] = {"object": (SUBJECT, OBJECT), "subject": (OBJECT, SUBJECT)}
"""By what is asked for: the side of the given entity, and that of the answers."""

MOST_RELATIONS = 1500
"""With more relations, tables have no place for pairs of relations that no entity has."""

BLOCK = 4_000_000
"""So many densities are computed at once; a table of them takes 16 MB."""

KEPT = 16_000_000
"""So many denominators are kept while a trained gadget answers; they take 64 MB."""


class PairOptions(GadgetOptions):
    """Settings of the pair gadget."""

    penalty: float = Field(0.002, ge=0, le=1e6, description="Weight of Σ b² in the loss of phase 2.")


@register("pair")
class Pair(Gadget):
    """φ(s, r, o, t) = φ_sub(s, r, t) + φ_obj(o, r, t), each a weighted mean over the entity's facts fᵢ in that role,

        φ_sub = Σ_i (N(t − tᵢ | μ_{r rᵢ}, σ_{r rᵢ}) + b_{r rᵢ}) exp(w_{r rᵢ}) / Σ_j exp(w_{r rⱼ}),   rᵢ ≠ r,

    and 0 without such facts. μ and σ are mean and standard deviation of the gaps in the training facts and stay so;
    w and b are learned; there are four tables (relations, relations) for subjects and four for objects. The density of
    a pair of relations that no training entity has is 0. With more than `MOST_RELATIONS` relations such pairs, nearly
    all there are, share one w and one b, so that tables are as long as there are others (`Places`).

    The published code differs: its Gaussian has height 1, and facts with rᵢ = r count, too (form = published-code).

    For all entities at once the numerators of a query (r, t) are a product A v: A, (entities, kinds), counts the facts
    of each entity by kind (rᵢ, tᵢ), and v holds (N + b) exp(w) for every kind. Equal queries are computed once.
    """

    options_type = PairOptions

    def __init__(self, evidence: Evidence, options: PairOptions) -> None:
        super().__init__(evidence, options)
        found = [meetings(entity, evidence) for entity in (evidence.s, evidence.o)]
        self._places = Places(found, evidence.relations)
        count, mean, sigma = (self._places.table(column) for column in ("count", "mean", "sigma"))
        # Each of these is (side, r, r′), or (side, pair).
        self.cases: Tensor
        self.mean: Tensor
        self.sigma: Tensor
        self.register_buffer("cases", torch.from_numpy(count.astype(np.int64)))
        self.register_buffer("mean", torch.from_numpy(np.where(count > 0, mean, 0.0)).float())
        floor = np.maximum(np.where(count > 0, sigma, 1.0), LEAST_SIGMA)
        self.register_buffer("sigma", torch.from_numpy(floor).float())
        self.weight = nn.Parameter(torch.full(count.shape, 0.1))
        self.bias = nn.Parameter(torch.full(count.shape, -0.2))
        self._kinds = tuple(Kinds(entity, evidence) for entity in (evidence.s, evidence.o))
        self._kept = Kept()

    def penalty(self) -> Tensor:
        """0.002 Σ b² (with the default setting)."""
        weight: float = self.options.penalty
        return weight * (self.bias**2).sum()

    def score_at(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor, own: Tensor | None = None) -> Tensor:
        when = to_torch(self.evidence.when(t), s)[:, None]
        return (self._means(SUBJECT, s, r, o, when, own) + self._means(OBJECT, s, r, o, when, own))[:, 0]

    def objects_at(self, s: Tensor, r: Tensor, t: Tensor, own: Tensor | None = None) -> Tensor:
        return self._answers("object", s, r, t, own)

    def subjects_at(self, r: Tensor, o: Tensor, t: Tensor, own: Tensor | None = None) -> Tensor:
        return self._answers("subject", o, r, t, own)

    def add_to(self, rows: Tensor, direction: Direction, given: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """The facts of the given entity say the same of all candidates and are left out, where that is so."""
        mine, asked = SIDES[direction]
        for relation in torch.unique(r)[:, None]:
            # The tables of one relation need not be spread over all queries.
            here = torch.nonzero(r == relation)[:, 0]
            self._add_everyone(rows, asked, here, relation, t[here])
        query, answer = self._answered(direction, given, r, t, None)
        if len(query) == 0:
            return rows
        # An answer that is known at this very time is no evidence for itself, on either side.
        given, r, t = given[query], r[query], t[query]
        when = to_torch(self.evidence.when(t), r)[:, None]
        before = self._means_alone(mine, given, r, when, None) + self._means_alone(asked, answer, r, when, None)
        change = self.score_at(*_fact(direction, given, r, answer), t) - before[:, 0]
        return rows.index_put_((query, answer), float(self.strength) * change, accumulate=True)

    def times(self, s: Tensor, r: Tensor, o: Tensor, own: Tensor | None = None) -> Tensor:
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

    def sentence(self, reason: Reason, relation: int, words: Describer) -> str:
        """The fact, how far apart the two relations are usually, and whether that is so here."""
        side, other = (SUBJECT if reason.side == "subject" else OBJECT), int(words.facts.r[reason.fact])
        place = self._places.of(side, torch.tensor(relation), torch.tensor(other))
        cases, mean, sigma = (float(table[side].flatten()[place]) for table in (self.cases, self.mean, self.sigma))
        fact, first, second = words.dated(reason.fact), words.relation(relation), words.relation(other)
        if cases == 0:
            return f"{fact}; no {reason.side} in the training facts has both {first} and {second}"
        usual, count = words.spread(mean, sigma, int(cases)), counted(int(cases), "case")
        if relation == other:  # here the statistics count each fact with itself, so that the number of cases misleads
            usual = f"{first} facts of one {reason.side} spread by ± {words.length(sigma)}"
        elif abs(mean) < 0.05:
            usual = f"{first} comes at the same time as {second}, ± {words.length(sigma)} ({count})"
        else:
            usual = f"{first} comes {usual} {'after' if mean > 0 else 'before'} {second} ({count})"
        return f"{fact}; {usual}, here {words.apart(reason.gap)}: {verdict(reason.gap, mean, sigma)}"

    # The parts ----------------------------------------------------------------------------------------------

    @property
    def _same_relation(self) -> bool:
        """Whether facts of the relation itself count."""
        return bool(self.options.form == "published-code")

    def _terms(self, side: Side, r: Tensor, other: Tensor, gap: Tensor) -> tuple[Tensor, Tensor]:
        """exp(w) (N(gap) + b) and exp(w) for pairs of relations; the arguments broadcast."""
        place = self._places.of(side, r, other)
        weight = self._relative_weights(side, r, place)
        mean, sigma, cases, bias = (
            _pick(table[side], place) for table in (self.mean, self.sigma, self.cases, self.bias)
        )
        height = density(gap, mean, sigma, normalised=not self._same_relation)
        return weight * (height * (cases > 0) + bias), weight

    def _relative_weights(self, side: Side, r: Tensor, place: Tensor) -> Tensor:
        """exp(w − max w) by (r, r′): weights are only compared among those of one r, so the maximum can be taken off.

        It is at least e⁻⁸⁰, so that facts of a relation that hardly counts still count where there are no others.
        """
        weight = self.weight[side]
        most = self._places.highest(side, weight.detach())
        if self._places.dense:  # one table of them is less work than one for each pair that is asked for
            return _pick(torch.exp((weight - most[:, None]).clamp(min=-80)), place)
        return torch.exp((_pick(weight, place) - most[r]).clamp(min=-80))

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
        return numerators / _divisor(denominators)

    def _means_alone(self, side: Side, entity: Tensor, r: Tensor, when: Tensor, own: Tensor | None) -> Tensor:
        """`_means` where only the entity of this side is known."""
        s, o = (entity, None) if side == SUBJECT else (None, entity)
        return self._means(side, s, r, o, when, own)

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
        step = self._step(side)
        parts = [
            self._ratios(side, relation[start : start + step], when[start : start + step])
            for start in range(0, len(keys), step)
        ]
        if not parts:
            return self.bias.new_zeros(0, kinds.entities)
        together = parts[0] if len(parts) == 1 else torch.cat(parts)
        return together if len(where) == 1 else together.index_select(0, where)

    def _add_everyone(self, rows: Tensor, side: Side, here: Tensor, relation: Tensor, t: Tensor) -> None:
        """Add strength · `_everyone` of one relation, (1,), to some rows, (m,), at times (m,); no gradient."""
        keys, where = torch.unique(t, return_inverse=True)
        when, strength = to_torch(self.evidence.when(keys), t), float(self.strength)
        step = self._step(side)
        for start in range(0, len(keys), step):
            means = self._ratios(side, relation, when[start : start + step])
            if len(rows) == 1:
                rows.add_(means, alpha=strength)
                continue
            some = torch.nonzero((where >= start) & (where < start + step))[:, 0]
            rows.index_add_(0, here[some], means.index_select(0, where[some] - start), alpha=strength)

    def _step(self, side: Side) -> int:
        """How many distinct queries are looked at together."""
        return max(1, BLOCK // max(1, len(self._kinds[side].relation), self._kinds[side].entities))

    def _ratios(self, side: Side, r: Tensor, when: Tensor) -> Tensor:
        """The means of every entity for distinct queries (r, when), or for one r at several times: (n, entities)."""
        kinds = self._kinds[side]
        other = to_torch(kinds.relation, r)
        gap = when[:, None] - to_torch(kinds.when, r)[None, :]
        numerator, _ = self._terms(side, r[:, None], other[None, :], gap)
        if not self._same_relation:
            numerator = numerator * (r[:, None] != other[None, :])
        # The denominators do not depend on time, so that one for each relation is enough.
        relations, which = torch.unique(r, return_inverse=True)
        denominators = self._denominators(side, relations)
        if len(relations) != len(r):
            denominators = denominators.index_select(0, which)
        numerators = kinds.by_kind.sums(numerator)
        return numerators / denominators if torch.is_grad_enabled() else numerators.div_(denominators)

    def _denominators(self, side: Side, relations: Tensor) -> Tensor:
        """Σ_j exp(w_{r rⱼ}) over the facts of every entity, for distinct relations: (n, entities)."""
        if self._kept.stale(self.weight):
            return self._sums_of_weights(side, relations)
        return torch.cat([self._kept_denominator(side, relation) for relation in relations.tolist()])

    def _kept_denominator(self, side: Side, relation: int) -> Tensor:
        """The denominators of one relation, (1, entities), computed once."""
        key, kept = (side, relation), self._kept.values
        row = kept.get(key)
        if row is None:
            row = self._sums_of_weights(side, torch.tensor([relation], device=self.weight.device))
            if (len(kept) + 1) * row.shape[1] <= KEPT:
                kept[key] = row
        return row

    def _sums_of_weights(self, side: Side, relations: Tensor) -> Tensor:
        everything = torch.arange(self.evidence.relations, device=relations.device)[None, :]
        given = relations[:, None]
        weights = self._relative_weights(side, given, self._places.of(side, given, everything))
        if not self._same_relation:
            weights = weights.scatter(1, relations[:, None], 0.0)
        return _divisor(self._kinds[side].by_relation.sums(weights))

    def _answers(self, direction: Direction, given: Tensor, r: Tensor, t: Tensor, own: Tensor | None) -> Tensor:
        """Scores of all entities as answers to questions: (n, entities)."""
        mine, asked = SIDES[direction]
        when = to_torch(self.evidence.when(t), r)[:, None]
        rows = self._everyone(asked, r, t) + self._means_alone(mine, given, r, when, own)
        query, answer = self._answered(direction, given, r, t, own)
        if len(query) == 0:
            return rows
        # Facts that were evidence for themselves are put right.
        fact = _fact(direction, given[query], r[query], answer)
        return rows.index_put_((query, answer), self.score_at(*fact, t[query], None if own is None else own[query]))

    def _answered(
        self, direction: Direction, given: Tensor, r: Tensor, t: Tensor, own: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Which entities are known to answer a question at its own time, or by its own fact: (query, answer).

        Where facts of the relation itself do not count, it does not matter, and none are told.
        """
        nothing = torch.zeros(0, dtype=torch.long, device=r.device)
        if not self._same_relation:
            return nothing, nothing
        index, answers = self.evidence.by_question(direction)
        query, fact = index.matches(pair_key(*to_numpy(given, r)))
        if own is None:
            itself = self.evidence.t[fact] == self.evidence.when(t)[query]
        else:
            itself = fact == to_numpy(own)[0][query]
        # Several facts may say the same, and what is put twice would have its gradient twice.
        one, other = split_key(np.unique(pair_key(query[itself], answers[fact[itself]])))
        return to_torch(one, r), to_torch(other, r)


def _fact(direction: Direction, given: Tensor, r: Tensor, answer: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(s, r, o) of a question and its answer."""
    return (given, r, answer) if direction == "object" else (answer, r, given)


def _pick(table: Tensor, place: Tensor) -> Tensor:
    """The values at places of the flat table; the gradient is the same each time, also with several threads."""
    return table.flatten().index_select(0, place.flatten()).view(place.shape)


def _divisor(weights: Tensor) -> Tensor:
    """Sums of weights to divide by: 1 where there are none, so that 0 / 0 is 0 and its gradient stays small."""
    return weights.masked_fill(weights == 0, 1)


class Places:
    """Where the pairs of relations stand in the tables of a side, (relations, relations), or (pairs,) if they are many.

    In the latter case place 0 is that of all pairs that no training entity has.
    """

    def __init__(self, found: Sequence[Meetings], relations: int) -> None:
        self.dense = relations <= MOST_RELATIONS
        self._found, self._relations = found, relations
        self._keys = [torch.from_numpy(each.key) for each in found]

    def table(self, column: Literal["count", "mean", "sigma"]) -> Floats:
        """A column of the meetings on both sides, 0 where there are none."""
        size = self._relations**2 if self.dense else 1 + max(len(each.key) for each in self._found)
        values = np.zeros((2, size))
        for side, each in zip(values, self._found, strict=True):
            side[each.key if self.dense else np.arange(1, len(each.key) + 1)] = getattr(each, column)
        return values.reshape(2, self._relations, -1) if self.dense else values

    def of(self, side: Side, r: Tensor, other: Tensor) -> Tensor:
        """The places of pairs in the flat table of a side; the arguments broadcast, and so does the result."""
        key = r * self._relations + other
        if self.dense:
            return key
        keys = self._keys[side] = self._keys[side].to(key.device)
        if len(keys) == 0:
            return torch.zeros_like(key)
        place = torch.searchsorted(keys, key).clamp(max=len(keys) - 1)
        return torch.where(keys[place] == key, place + 1, 0)

    def highest(self, side: Side, table: Tensor) -> Tensor:
        """The highest value of each relation in the table of a side: (relations,)."""
        if self.dense:
            return table.amax(1)
        keys = self._keys[side] = self._keys[side].to(table.device)
        shared = table[:1].expand(self._relations)
        return shared.scatter_reduce(0, keys // self._relations, table[1 : len(keys) + 1], "amax")
