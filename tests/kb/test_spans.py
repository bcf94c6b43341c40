"""Spans against sets of instants, on all pairs of a small world and with open ends."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from timeplex.kb import spans
from timeplex.kb.spans import OPEN_BEGIN, OPEN_END

# The world is 0 … 7. In the oracle an open end reaches well out of it, to −100 or 107.
LEAST, MOST = -100, 107
BEGINS, ENDS = [OPEN_BEGIN, *range(8)], [OPEN_END, *range(8)]
SPANS = [(begin, end) for begin in BEGINS for end in ENDS if begin <= end]
PAIRS = list(itertools.product(SPANS, SPANS))
A, B = ((np.array([pair[side][0] for pair in PAIRS]), np.array([pair[side][1] for pair in PAIRS])) for side in (0, 1))


def instants(begin: int, end: int) -> set[int]:
    low, high = LEAST if begin == OPEN_BEGIN else begin, MOST if end == OPEN_END else end
    return set(range(low, high + 1))


def is_infinite(members: set[int]) -> bool:
    return LEAST in members or MOST in members


def size(members: set[int]) -> float:
    return np.inf if is_infinite(members) else len(members)


SETS = {span: instants(*span) for span in SPANS}


def on_pairs(oracle: Callable[[set[int], set[int]], object]) -> list[object]:
    return [oracle(SETS[one], SETS[other]) for one, other in PAIRS]


def test_volume_counts_the_instants() -> None:
    begin, end = np.array(SPANS).T
    assert spans.volume((begin, end)).tolist() == [size(SETS[span]) for span in SPANS]
    assert spans.volume((5, 3)) == 0
    assert spans.volume((5, 4)) == 0


def test_intersection_has_the_common_instants() -> None:
    found = [instants(*span) for span in zip(*spans.intersection(A, B), strict=True)]
    assert found == on_pairs(lambda one, other: one & other)
    assert spans.volume(spans.intersection(A, B)).tolist() == on_pairs(lambda one, other: size(one & other))


def test_hull_has_all_between() -> None:
    found = [instants(*span) for span in zip(*spans.hull(A, B), strict=True)]
    assert found == on_pairs(lambda one, other: set(range(min(one | other), max(one | other) + 1)))


def test_open_ends() -> None:
    begin_open, end_open = spans.is_open(A)
    assert begin_open.tolist() == [one[0] == OPEN_BEGIN for one, _ in PAIRS]
    assert end_open.tolist() == [one[1] == OPEN_END for one, _ in PAIRS]
    closed = [instants(*span) for span in zip(*spans.close(A, LEAST, MOST), strict=True)]
    assert closed == on_pairs(lambda one, _: one)


# Union


def components(members: set[int]) -> list[tuple[int, int]]:
    """The runs of successive instants."""
    first = sorted(member for member in members if member - 1 not in members)
    last = sorted(member for member in members if member + 1 not in members)
    return list(zip(first, last, strict=True))


def clipped(begin: int, end: int) -> tuple[int, int]:
    return LEAST if begin == OPEN_BEGIN else begin, MOST if end == OPEN_END else end


def test_union_of_all_pairs() -> None:
    group = np.repeat(np.arange(len(PAIRS)), 2)
    begin, end = np.array(PAIRS).reshape(-1, 2).T
    found: dict[int, list[tuple[int, int]]] = {}
    for low, high, number in zip(*(part.tolist() for part in spans.union((begin, end), group)), strict=True):
        found.setdefault(number, []).append(clipped(low, high))
    expected = on_pairs(lambda one, other: components(one | other))
    assert [found[number] for number in range(len(PAIRS))] == expected


MAYBE_EMPTY = st.tuples(st.sampled_from(BEGINS) | st.integers(0, 30), st.sampled_from(ENDS) | st.integers(0, 30))
GROUPS = st.integers(-2, 3) | st.sampled_from([-(2**40), 2**62])


@given(st.lists(st.tuples(MAYBE_EMPTY, GROUPS), max_size=12))
def test_union_a_group_apart(rows: list[tuple[tuple[int, int], int]]) -> None:
    expected = []
    for group in sorted({group for _, group in rows}):
        members: set[int] = set().union(*(instants(*span) for span, own in rows if own == group))
        expected += [(*run, group) for run in components(members)]
    begin, end, group = ([row[0][0] for row in rows], [row[0][1] for row in rows], [row[1] for row in rows])
    united = zip(*(part.tolist() for part in spans.union((begin, end), group)), strict=True)
    assert [(*clipped(low, high), own) for low, high, own in united] == expected


@given(st.lists(MAYBE_EMPTY, max_size=8))
def test_union_without_groups_is_one_group(rows: list[tuple[int, int]]) -> None:
    begin, end = [row[0] for row in rows], [row[1] for row in rows]
    one_group = spans.union((begin, end), [0] * len(rows))
    for part, same in zip(spans.union((begin, end)), one_group, strict=True):
        np.testing.assert_array_equal(part, same)


def test_union_of_one_span() -> None:
    assert [part.tolist() for part in spans.union((3, 5))] == [[3], [5], [0]]


# Shapes and numbers

PAIRWISE = [lambda a, b: spans.intersection(a, b)[0], lambda a, b: spans.hull(a, b)[1]]


@pytest.mark.parametrize("function", PAIRWISE)
def test_spans_broadcast(function: Callable[..., np.ndarray]) -> None:
    column = tuple(np.array(SPANS)[:, [side]] for side in (0, 1))
    row = tuple(np.array(SPANS)[None, :, side] for side in (0, 1))
    table = function(column, row)
    assert table.shape == (len(SPANS), len(SPANS))
    np.testing.assert_array_equal(table.ravel(), function(A, B))
    assert np.shape(function((1, 2), (3, 4))) == ()
    assert function((1, 2), row).shape == (1, len(SPANS))
    assert function(([], []), ([], [])).shape == (0,)


@pytest.mark.parametrize("function", PAIRWISE)
def test_columns_of_32_bits_do_not_overflow(function: Callable[..., np.ndarray]) -> None:
    narrow_a, narrow_b = (tuple(part.astype(np.int32) for part in span) for span in (A, B))
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(function(narrow_a, narrow_b), function(A, B))
        np.testing.assert_array_equal(spans.volume(narrow_a), spans.volume(A))
        far = np.array([OPEN_BEGIN + 1, OPEN_END - 1], np.int32)
        assert spans.volume((far[:1], far[1:])).tolist() == [2.0**32 - 2]
        assert [part.tolist() for part in spans.union((far[::-1], far[::-1]))] == [far.tolist(), far.tolist(), [0, 0]]


def test_the_arguments_stay_as_they_are() -> None:
    begin, end = np.array([OPEN_BEGIN, 3]), np.array([4, OPEN_END])
    spans.volume((begin, end))
    spans.union((begin, end))
    spans.close((begin, end), 0, 9)
    assert (begin.tolist(), end.tolist()) == ([OPEN_BEGIN, 3], [4, OPEN_END])
