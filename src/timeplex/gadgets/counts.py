"""How often entities meet kinds of facts, as sparse matrices, and what is kept between queries."""

import numpy as np
import torch
from scipy.sparse import csr_array
from torch import Tensor

from timeplex.gadgets.evidence import Evidence
from timeplex.gadgets.gaps import distinct
from timeplex.kb.dates import Ints


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
