"""Spans that grow over a table of probabilities, always towards the likelier side."""

import numpy as np

from timeplex.kb.spans import Floats, Ints


class Growth:
    """Spans that grow over a table of probabilities, all at once.

    The way a span grows does not depend on θ, which only says where it stops. So a span that has reached one θ can go
    on to a higher one.
    """

    def __init__(self, probability: Floats, start: Ints) -> None:
        """`start`: positions to begin at, (n, k); the spans are kept as n · k rows."""
        # Beyond the edges lies less than nothing, so that no span grows there while it has another neighbour.
        self._edged = np.pad(probability, ((0, 0), (1, 1)), constant_values=-1.0)
        self._row = np.repeat(np.arange(len(start)), start.shape[1])
        self.first = start.ravel().copy()
        self.last = self.first.copy()
        self.mass = self._edged[self._row, self.first + 1]

    def until(self, theta: Floats) -> None:
        """Grow each span until it holds its θ or all of the timeline; theta: (n · k,)."""
        growing = np.flatnonzero(self.mass < theta)
        while True:
            growing = self._grow(growing)
            if len(growing) == 0:
                return
            growing = growing[self.mass[growing] < theta[growing]]

    def until_holding(self, position: Ints) -> Floats:
        """Grow each span until it holds its position; what it held before that step, 0 if none was needed: (n · k,)."""
        before = np.zeros(len(self.mass))
        growing = np.arange(len(self.mass))
        while True:
            growing = growing[(self.first[growing] > position[growing]) | (self.last[growing] < position[growing])]
            before[growing] = self.mass[growing]
            growing = self._grow(growing)
            if len(growing) == 0:
                return before

    def _grow(self, growing: Ints) -> Ints:
        """One step of the given spans; those that could grow."""
        length = self._edged.shape[1] - 2
        growing = growing[(self.first[growing] > 0) | (self.last[growing] < length - 1)]
        row = self._row[growing]
        left = self._edged[row, self.first[growing]]
        right = self._edged[row, self.last[growing] + 2]
        to_left = left > right
        self.first[growing] -= to_left
        self.last[growing] += ~to_left
        self.mass[growing] += np.maximum(left, right)
        return growing
