"""The contract of every model: rows of scores, one row a query, for objects, subjects and times.

Entities, relations and instants are numbers; an instant is a position on a timeline. A model answers at
instants; the base class extends the answers to spans by the paper's definition

    φ(s, r, o, T) = Σ_{t ∈ T} φ(s, r, o, t).

The laws (timeplex.testing): score = objects[o] = subjects[s], at instants = times[t]; a span is the sum of its
instants; evaluating changes nothing; gradients reach every table; the answer does not depend on the batch.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn
from torch.nn.functional import embedding

from timeplex.registry import register_in

Span = tuple[Tensor, Tensor]
"""First and last position of each query's span, both inclusive, shape (n,) each."""


@dataclass(frozen=True)
class Space:
    """What a model must know of a KB: how many there are of each kind, and what its instants are."""

    entities: int
    relations: int  # twice as many if inverse facts are trained
    dates: Tensor  # (instants, 3): year, month, day of each instant; 0 where the granularity has none
    mentions: Tensor  # (instants,): how many training facts begin or end there

    @property
    def instants(self) -> int:
        """Length of the timeline."""
        return len(self.dates)

    @classmethod
    def plain(cls, entities: int, relations: int, instants: int) -> "Space":
        """A space of consecutive years, for tests and examples."""
        dates = torch.zeros(instants, 3, dtype=torch.long)
        dates[:, 0] = torch.arange(1900, 1900 + instants)
        return cls(entities, relations, dates, torch.ones(instants, dtype=torch.long))


def tuned(*choices: float, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    """What a search may set a field to: one of some values, or anything from low to high on a logarithmic scale."""
    return {"tune": {"choices": list(choices)} if choices else {"low": low, "high": high}}


class Options(BaseModel):
    """Settings of a model; a model adds its own fields. An unknown one is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    dimension: int = Field(200, ge=1, le=100_000, description="Length of an embedding, in real or complex numbers.")
    spread: float = Field(0.05, gt=0, le=1000, description="Standard deviation of the first values of the tables.")


class Model(nn.Module, ABC):
    """A score for every (s, r, o, t). Subclasses say what it is at instants."""

    name: ClassVar[str]
    options_type: ClassVar[type[Options]] = Options
    uses_time: ClassVar[bool] = True
    by_instant: ClassVar[bool] = False  # whether batches should lie near each other in time
    entity_tables: ClassVar[tuple[str, ...]] = ("entity",)  # the tables with a row for each entity

    def __init__(self, space: Space, options: Any) -> None:
        super().__init__()
        self.space = space
        self.options = options
        self._remembered: dict[tuple[int, ...], tuple[Tensor, tuple[Tensor, ...]]] | None = None

    # What a model file writes -----------------------------------------------------------------------------

    @abstractmethod
    def score_at(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> Tensor:
        """φ(s, r, o, t). The arguments broadcast; so does the result."""

    @abstractmethod
    def objects_at(self, s: Tensor, r: Tensor, t: Tensor) -> Tensor:
        """φ(s, r, ·, t) for all entities: (n,) in, (n, entities) out."""

    @abstractmethod
    def subjects_at(self, r: Tensor, o: Tensor, t: Tensor) -> Tensor:
        """φ(·, r, o, t) for all entities: (n,) in, (n, entities) out."""

    def terms(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> dict[str, Tensor]:
        """Named parts that sum to φ(s, r, o, t), for explanations; their shapes are those of `score_at`."""
        return {"score": self.score_at(s, r, o, t)}

    def factors(self, s: Tensor, r: Tensor, o: Tensor, t: Tensor) -> list[Tensor]:
        """The embeddings that a fact uses, for regularisers; each (n, …)."""
        return []

    def time_table(self) -> Tensor | None:
        """The embeddings of consecutive instants, (instants, …), for smoothing; None if there are none."""
        return None

    def instant_groups(self) -> Tensor | None:
        """Which instants the model cannot tell apart: a group number for each, in order; None if it can."""
        return None

    def after_step(self) -> None:
        """Called after every update, for constraints such as unit length."""

    # What follows from it ---------------------------------------------------------------------------------

    def times(self, s: Tensor, r: Tensor, o: Tensor) -> Tensor:
        """φ(s, r, o, ·) for all instants: (n,) in, (n, instants) out."""
        everywhen = torch.arange(self.space.instants, device=s.device)
        return self.score_at(s[:, None], r[:, None], o[:, None], everywhen[None, :])

    def objects_among(self, s: Tensor, r: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        """φ(s, r, ·, t) for the given entities: (n,) and (k,) in, (n, k) out."""
        return self.score_at(s[:, None], r[:, None], candidates[None, :], t[:, None])

    def subjects_among(self, r: Tensor, o: Tensor, t: Tensor, candidates: Tensor) -> Tensor:
        """φ(·, r, o, t) for the given entities: (n,) and (k,) in, (n, k) out."""
        return self.score_at(candidates[None, :], r[:, None], o[:, None], t[:, None])

    def score(self, s: Tensor, r: Tensor, o: Tensor, span: Span) -> Tensor:
        """φ(s, r, o, T), (n,) in and out."""
        query, t = enumerate_spans(span)
        return sum_by_query(self.score_at(s[query], r[query], o[query], t), query, len(s))

    def objects(self, s: Tensor, r: Tensor, span: Span) -> Tensor:
        """φ(s, r, ·, T) for all entities: (n, entities)."""
        query, t = enumerate_spans(span)
        return sum_by_query(self.objects_at(s[query], r[query], t), query, len(s))

    def subjects(self, r: Tensor, o: Tensor, span: Span) -> Tensor:
        """φ(·, r, o, T) for all entities: (n, entities)."""
        query, t = enumerate_spans(span)
        return sum_by_query(self.subjects_at(r[query], o[query], t), query, len(o))

    def rows(self, table: Tensor, index: Tensor) -> Tensor:
        """table[index]: (…) → (…, width)."""
        return self.remembered(lambda: embedding(index, table), table, index)

    def remembered(self, compute: Callable[[], Tensor], *sources: Tensor) -> Tensor:
        """What `compute` makes of its sources.

        A step needs the same vectors for several terms of its loss; within `remembering` they are made once, so that
        their gradients go back once. The sources alone must say what is computed.
        """
        if self._remembered is None:
            return compute()
        key = tuple(id(source) for source in sources)
        if key not in self._remembered:
            # The sources are kept as well, so that no other tensor gets their identity meanwhile.
            self._remembered[key] = (compute(), sources)
        return self._remembered[key][0]

    @contextmanager
    def remembering(self) -> Iterator[None]:
        """While a training step computes its loss."""
        self._remembered = {}
        try:
            yield
        finally:
            self._remembered = None

    def table(self, rows: int, width: int, spread: float | None = None) -> nn.Parameter:
        """A table of normal random numbers to learn."""
        spread = self.options.spread if spread is None else spread
        return nn.Parameter(torch.randn(rows, width) * spread)

    @property
    def parameter_count(self) -> int:
        """How many numbers are learned."""
        return sum(parameter.numel() for parameter in self.parameters())


def enumerate_spans(span: Span) -> tuple[Tensor, Tensor]:
    """Every instant of every span: (which query it belongs to, the instant), both (Σ|T|,)."""
    first, last = span
    lengths = last - first + 1
    query = torch.repeat_interleave(torch.arange(len(first), device=first.device), lengths)
    begin_of_query = torch.cumsum(lengths, 0) - lengths
    t = torch.arange(len(query), device=first.device) - begin_of_query[query] + first[query]
    return query, t


def sum_by_query(values: Tensor, query: Tensor, queries: int) -> Tensor:
    """Sum the rows of `values` that belong to the same query: (m, …) → (queries, …)."""
    total = values.new_zeros(queries, *values.shape[1:])
    return total.index_add(0, query, values)


def by_group(rows: Tensor, group: Tensor, work: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Do `work(group, its rows)` once a distinct group and put the results back in the order of the rows.

    For models whose tables depend on the instant: rows (n, …) and group (n,) in, (n, …) out.
    """
    if len(rows) == 0:
        return work(group.new_zeros(()), rows)
    distinct, where, counts = torch.unique(group, return_inverse=True, return_counts=True)
    order = torch.argsort(where, stable=True)
    parts = torch.split(rows[order], counts.tolist())
    done = torch.cat([work(each, part) for each, part in zip(distinct, parts, strict=True)])
    return done[torch.argsort(order)]


MODELS: dict[str, type[Model]] = {}


def register(name: str) -> Callable[[type[Model]], type[Model]]:
    """Make a model known by a name: `@register("mymodel")` above its class."""
    return register_in(MODELS, name)
