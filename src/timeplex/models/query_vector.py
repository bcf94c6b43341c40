"""Models whose candidates are compared with one query vector: by dot product or by distance.

    φ(s, r, o, t) = ⟨query(s, r, t), table[o]⟩ + constant(s, r, t)      or      −‖query(s, r, t) − table[o]‖ₚ

All candidates then cost one matrix product (or one table of distances). With dot products a span costs no more than the
sum of its query vectors: Σ_t φ = ⟨Σ_t query, table[o]⟩ + Σ_t constant.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from timeplex.models.base import Model, Span, enumerate_spans, sum_by_query


def broadcast(*tensors: Tensor) -> list[Tensor]:
    """The tensors at their common shape."""
    return list(torch.broadcast_tensors(*tensors))  # type: ignore[no-untyped-call]


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """a ∘ b, the complex product, element by element; arguments broadcast."""
    product: Tensor = _Product.apply(a, b, False)  # type: ignore[no-untyped-call]
    return product


def multiply_conjugate(a: Tensor, b: Tensor) -> Tensor:
    """ā ∘ b."""
    product: Tensor = _Product.apply(a, b, True)  # type: ignore[no-untyped-call]
    return product


class _Product(torch.autograd.Function):
    """a ∘ b, or ā ∘ b if `conjugated`. The gradients are such products, too; autograd would take more passes.

    With g the gradient of the product: of a ∘ b they are b̄ ∘ g and ā ∘ g, of ā ∘ b they are ḡ ∘ b and a ∘ g.
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, conjugated: bool) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.conjugated = conjugated
        return _product(a, b, conjugated)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (a, b), gradient = ctx.saved_tensors, gradients[0]
        of_a = of_b = None
        if ctx.needs_input_grad[0]:
            of_a = (_product(gradient, b, True) if ctx.conjugated else _product(b, gradient, True)).sum_to_size(a.shape)
        if ctx.needs_input_grad[1]:
            of_b = _product(a, gradient, not ctx.conjugated).sum_to_size(b.shape)
        return of_a, of_b, None


def _product(a: Tensor, b: Tensor, conjugated: bool) -> Tensor:
    (a_re, a_im), (b_re, b_im) = a.chunk(2, dim=-1), b.chunk(2, dim=-1)
    # The common shape takes longer to find than one query's product to compute.
    shape = a.shape if a.shape == b.shape else torch.broadcast_shapes(a.shape, b.shape)  # type: ignore[no-untyped-call]
    product = a.new_empty(shape)
    re, im = product.chunk(2, dim=-1)
    sign = -1 if conjugated else 1
    torch.mul(a_re, b_re, out=re).addcmul_(a_im, b_im, value=-sign)
    torch.mul(a_re, b_im, out=im).addcmul_(a_im, b_re, value=sign)
    return product


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Re⟨a, b̄⟩ = Σ a·b over the last axis."""
    return (a * b).sum(-1)


def minus_distance(a: Tensor, b: Tensor, norm: int) -> Tensor:
    """−‖a − b‖ₚ over the last axis."""
    distance: Tensor = torch.linalg.vector_norm(a - b, ord=norm, dim=-1)
    return -distance


class QueryVector(NamedTuple):
    """One side of a query: what the candidates are compared with, and how."""

    query: Tensor  # (…, width)
    table: Tensor  # (candidates, width)
    constant: Callable[[], Tensor] | None = None  # makes (…), what all candidates have alike; losses never ask for it
    norm: int | None = None  # None: dot product; p: minus the distance in the p-norm

    def of(self, candidates: Tensor) -> Tensor:
        """The scores of the given candidates; broadcasts with the queries."""
        if self.norm is not None:
            return minus_distance(self.query, self.table[candidates], self.norm)
        scores = dot(self.query, self.table[candidates])
        return scores if self.constant is None else scores + self.constant()

    def of_all(self) -> Tensor:
        """The scores of all candidates: (n, candidates)."""
        if self.norm is not None:
            # The exact way: the one by matrix products loses half the digits where a distance is small.
            return -torch.cdist(self.query, self.table, p=self.norm, compute_mode="donot_use_mm_for_euclid_dist")
        scores = self.query @ self.table.T
        return scores if self.constant is None else scores + self.constant()[:, None]

    def times(self, factor: Tensor) -> "QueryVector":
        """The side whose scores are `factor` (n,) times as large; for dot products."""
        constant = self.constant
        scaled = None if constant is None else lambda: constant() * factor
        return QueryVector(self.query * factor[:, None], self.table, scaled)

    def of_all_summed(self, query: Tensor, queries: int) -> Tensor:
        """The scores of all candidates, summed over the rows that belong to the same query: (queries, candidates)."""
        if self.norm is not None:
            return sum_by_query(self.of_all(), query, queries)
        constant = self.constant  # dot products: the vectors are added up instead
        total = None if constant is None else lambda: sum_by_query(constant(), query, queries)
        return QueryVector(sum_by_query(self.query, query, queries), self.table, total).of_all()


class QueryVectorModel(Model):
    """A model that gives the sides of a query; the scores follow."""

    @abstractmethod
    def object_side(self, s: Tensor, r: Tensor, t: Tensor) -> QueryVector:
        """The side of (s, r, ?, t); arguments of any shape that broadcasts."""

    @abstractmethod
    def subject_side(self, r: Tensor, o: Tensor, t: Tensor) -> QueryVector:
        """The side of (?, r, o, t)."""

    def score_at(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> Tensor:
        return self.object_side(s, r, t).of(o)

    def objects_at(self, s: Tensor, r: Tensor, t: Tensor) -> Tensor:
        return self.object_side(s, r, t).of_all()

    def subjects_at(self, r: Tensor, o: Tensor, t: Tensor) -> Tensor:
        return self.subject_side(r, o, t).of_all()

    def objects_among(self, s: Tensor, r: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        side = self.object_side(s, r, t)
        return side._replace(table=side.table[candidates]).of_all()

    def subjects_among(self, r: Tensor, o: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        side = self.subject_side(r, o, t)
        return side._replace(table=side.table[candidates]).of_all()

    def objects(self, s: Tensor, r: Tensor, span: Span) -> Tensor:
        query, t = enumerate_spans(span)
        return self.object_side(s[query], r[query], t).of_all_summed(query, len(s))

    def subjects(self, r: Tensor, o: Tensor, span: Span) -> Tensor:
        query, t = enumerate_spans(span)
        return self.subject_side(r[query], o[query], t).of_all_summed(query, len(o))


class TimeLinearModel(QueryVectorModel):
    """A dot-product model whose score is also affine in the time vector, so that Σ_{t∈T} φ(t) = |T| · φ(mean of T).

    The mean over any span is a difference of two rows of a prefix sum over the time table.
    """

    time: torch.nn.Parameter  # (instants, width)
    _kept_prefix: tuple[tuple[int, int], Tensor] | None = None

    @abstractmethod
    def object_side_with(self, s: Tensor, r: Tensor, time: Tensor) -> QueryVector:
        """The side of (s, r, ?) with time vectors (…, width)."""

    @abstractmethod
    def subject_side_with(self, r: Tensor, o: Tensor, time: Tensor) -> QueryVector:
        """The side of (?, r, o) with time vectors."""

    @abstractmethod
    def time_side(self, s: Tensor, r: Tensor, o: Tensor) -> QueryVector:
        """The side of (s, r, o, ?), whose table is the time table."""

    def time_table(self) -> Tensor:
        return self.time

    def object_side(self, s: Tensor, r: Tensor, t: Tensor) -> QueryVector:
        return self.object_side_with(s, r, self.rows(self.time, t))

    def subject_side(self, r: Tensor, o: Tensor, t: Tensor) -> QueryVector:
        return self.subject_side_with(r, o, self.rows(self.time, t))

    def times(self, s: Tensor, r: Tensor, o: Tensor) -> Tensor:
        return self.time_side(s, r, o).of_all()

    def score(self, s: Tensor, r: Tensor, o: Tensor, span: Span) -> Tensor:
        mean, length = self.mean_time(span)
        return self.object_side_with(s, r, mean).times(length).of(o)

    def objects(self, s: Tensor, r: Tensor, span: Span) -> Tensor:
        """φ(s, r, ·, T) at the cost of an instant."""
        mean, length = self.mean_time(span)
        return self.object_side_with(s, r, mean).times(length).of_all()

    def subjects(self, r: Tensor, o: Tensor, span: Span) -> Tensor:
        """φ(·, r, o, T) at the cost of an instant."""
        mean, length = self.mean_time(span)
        return self.subject_side_with(r, o, mean).times(length).of_all()

    def mean_time(self, span: Span) -> tuple[Tensor, Tensor]:
        """The mean time vector of each span, (n, width), and the number of its instants, (n,)."""
        first, last = span
        prefix = self._prefix_sums()
        length = (last - first + 1).to(self.time.dtype)
        mean = (prefix[last + 1] - prefix[first]) / length[:, None]
        return mean.to(self.time.dtype), length

    def _prefix_sums(self) -> Tensor:
        """Sums of the first 0, 1, … time vectors, (instants + 1, width).

        They are kept once the table is trained and stays as it is, because one query needs two rows only.
        """
        kept, table = self._kept_prefix, self.time
        state = (table.data_ptr(), table._version)
        if kept is not None and kept[0] == state and not table.requires_grad:
            return kept[1]
        # In double precision, because the difference of two long sums would lose the last digits.
        prefix = torch.cumsum(torch.cat([table.new_zeros(1, table.shape[1]), table]).double(), 0)
        self._kept_prefix = None if table.requires_grad else (state, prefix)
        return prefix
