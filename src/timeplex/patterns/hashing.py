"""Counts by whole numbers, many and sparse: a hash table that compiled code fills and reads.

A table is keys (size,), −1: free, and counts (size, columns); its size is a power of two, and at most half of it is
used.
"""

import numpy as np
from numba import njit

from timeplex.typing import Ints

Table = tuple[Ints, Ints]


@njit(cache=True, nogil=True)
def empty(columns: int) -> Table:
    """A table without any key."""
    return np.full(1 << 12, -1), np.zeros((1 << 12, columns), np.int64)


@njit(cache=True, nogil=True)
def slot_of(keys: Ints, key: int) -> int:
    """Where the key stands in the table, or would stand."""
    slot = ((key * 0x9E3779B97F4A7C1) >> 20) & (len(keys) - 1)
    while keys[slot] != key and keys[slot] != -1:
        slot = (slot + 1) & (len(keys) - 1)
    return slot


@njit(cache=True, nogil=True)
def with_room(keys: Ints, counts: Ints, used: int) -> Table:
    """The table, twice as large if it is half full."""
    if 2 * used < len(keys):
        return keys, counts
    size = 2 * len(keys)
    new_keys, new_counts = np.full(size, -1), np.zeros((size, counts.shape[1]), np.int64)
    for old in range(len(keys)):
        if keys[old] != -1:
            new = slot_of(new_keys, keys[old])
            new_keys[new], new_counts[new] = keys[old], counts[old]
    return new_keys, new_counts
