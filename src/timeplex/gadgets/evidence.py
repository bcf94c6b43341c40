"""The training facts that gadgets look at, each at one time, with the indexes to find them by."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from timeplex.kb import spans
from timeplex.kb.dates import Ints
from timeplex.kb.facts import Facts, Index, pair_key


@dataclass(frozen=True, eq=False)
class Evidence:
    """Facts reduced to (s, r, o, t), arrays of shape (n,), where t is the begin, or the end where the begin is open.

    t is a calendar instant, so that gaps are years or days and not positions. Facts without any date are left out;
    `rows` says where the others stand among the training facts. `instants` is the timeline that queries are put on.
    """

    s: Ints
    r: Ints
    o: Ints
    t: Ints
    rows: Ints
    entities: int
    relations: int
    instants: Ints

    @classmethod
    def of(cls, train: Facts, entities: int, relations: int, instants: Ints) -> "Evidence":
        """The evidence that training facts are."""
        open_begin, open_end = spans.is_open(train.span)
        t = np.where(open_begin, train.end, train.begin).astype(np.int64)
        rows = np.flatnonzero(~(open_begin & open_end))
        s, r, o = (np.asarray(column, np.int64)[rows] for column in (train.s, train.r, train.o))
        return cls(s, r, o, t[rows], rows, entities, relations, np.asarray(instants, np.int64))

    def __len__(self) -> int:
        return len(self.s)

    def when(self, t: Tensor) -> Ints:
        """Calendar instants of positions on the timeline."""
        when: Ints = self.instants[t.cpu().numpy()]
        return when

    def places(self, rows: Ints) -> Ints:
        """Where training facts, given by their rows, stand here; −1 for those that are left out."""
        if len(self) == 0:
            return np.full(len(rows), -1)
        place = np.minimum(np.searchsorted(self.rows, rows), len(self) - 1)
        return np.where(self.rows[place] == rows, place, -1)

    @cached_property
    def by_subject(self) -> Index:
        """Facts by subject."""
        return Index(self.s)

    @cached_property
    def by_object(self) -> Index:
        """Facts by object."""
        return Index(self.o)

    @cached_property
    def by_subject_relation(self) -> Index:
        """Facts by subject and relation."""
        return Index(pair_key(self.s, self.r))

    @cached_property
    def by_object_relation(self) -> Index:
        """Facts by object and relation."""
        return Index(pair_key(self.o, self.r))

    def of_triples(self, s: Ints, r: Ints, o: Ints) -> tuple[Ints, Ints]:
        """All pairs (query, fact) that have subject, relation and object in common, by query."""
        query, fact = self.by_subject_relation.matches(pair_key(s, r))
        same = self.o[fact] == o[query]
        return query[same], fact[same]


def to_numpy(*tensors: Tensor) -> tuple[Ints, ...]:
    """Integer tensors as arrays; the indexes of the evidence live on the processor."""
    return tuple(tensor.cpu().numpy() for tensor in tensors)


def to_torch(array: NDArray[Any], like: Tensor) -> Tensor:
    """An array on the device of a tensor."""
    return torch.from_numpy(np.ascontiguousarray(array)).to(like.device)
