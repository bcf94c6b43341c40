"""Time metrics: the paper's examples, values by hand, property P by exhaustion, and the laws of every metric."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluation.measures import time_metrics

from timeplex.evaluation.metrics import METRICS, aeiou, gaeiou, giou, iou, tac, time_scores
from timeplex.kb import spans

WORLD = np.array([(begin, end) for begin in range(8) for end in range(begin, 8)]).T
"""All spans of a world of eight instants: (2, 36)."""


def value(metric: str, gold: tuple[int, int], predicted: tuple[int, int]) -> float:
    return float(METRICS[metric](gold, predicted))


def test_the_papers_examples() -> None:
    assert aeiou((1969, 1969), (1967, 1967)) == 1 / 3
    assert iou((1, 2), (3, 4)) == iou((1, 2), (30, 40)) == 0
    near, far = (1999, 2001), (1900, 2001)
    assert giou((2002, 2005), near) == giou((2002, 2005), far) == 0.5
    assert aeiou((2002, 2005), near) == 1 / 7
    assert aeiou((2002, 2005), far) == 1 / 106
    assert tac((10, 20), (5, 15)) == tac((100, 200), (95, 195)) == 1 / 6


@pytest.mark.parametrize(
    ("gold", "predicted", "expected"),
    [
        #                             tac                  iou     giou             aeiou   gaeiou
        ((2000, 2003), (2000, 2003), (1, 1, 1, 1, 1)),
        ((2000, 2003), (2002, 2007), ((1 / 3 + 1 / 5) / 2, 2 / 8, (1 + 2 / 8) / 2, 2 / 8, 2 / 8)),
        ((2000, 2003), (2001, 2001), ((1 / 2 + 1 / 3) / 2, 1 / 4, (1 + 1 / 4) / 2, 1 / 4, 1 / 4)),
        ((2000, 2001), (2002, 2002), ((1 / 3 + 1 / 2) / 2, 0, 1 / 2, 1 / 3, 1 / 2 / 3)),
        ((2000, 2001), (2005, 2006), (1 / 6, 0, (1 - 3 / 7) / 2, 1 / 7, 1 / 5 / 7)),
        ((2006, 2005), (2001, 2000), (1 / 6, 0, (1 - 3 / 7) / 2, 1 / 7, 1 / 5 / 7)),  # ends before begins
    ],
)
def test_values_by_hand(gold: tuple[int, int], predicted: tuple[int, int], expected: tuple[float, ...]) -> None:
    found = [value(name, gold, predicted) for name in ("tac", "iou", "giou", "aeiou", "gaeiou")]
    np.testing.assert_allclose(found, expected, rtol=1e-15)


def literal(metric: str, gold: tuple[int, int], predicted: tuple[int, int]) -> float:
    """By the definitions, with sets of instants."""
    g, p = (set(range(begin, end + 1)) for begin, end in (gold, predicted))
    hull = set(range(min(g | p), max(g | p) + 1))
    between = len(hull - (g | p))
    affinity = 1 / (between + 2) if metric == "gaeiou" else 1
    return {
        "tac": (1 / (1 + abs(gold[0] - predicted[0])) + 1 / (1 + abs(gold[1] - predicted[1]))) / 2,
        "iou": len(g & p) / len(g | p),
        "giou": (len(g & p) / len(g | p) - between / len(hull) + 1) / 2,
        "aeiou": max(affinity, len(g & p)) / len(hull),
        "gaeiou": max(affinity, len(g & p)) / len(hull),
    }[metric]


@pytest.mark.parametrize("name", METRICS)
def test_all_pairs_of_a_small_world_have_the_literal_value(name: str) -> None:
    table = METRICS[name](WORLD[:, :, None], WORLD[:, None, :])  # type: ignore[arg-type]
    expected = [[literal(name, gold, predicted) for predicted in WORLD.T.tolist()] for gold in WORLD.T.tolist()]
    np.testing.assert_allclose(table, expected, rtol=1e-14)
    np.testing.assert_allclose(table, table.T, rtol=1e-14)  # all of them are symmetric
    assert ((table == 1) == np.eye(len(table), dtype=bool)).all()  # 1 for the gold itself and for nothing else


def against_property_p(name: str) -> int:
    """How many triples (gold, prediction, prediction) of the small world break it.

    Property P: of two predictions that share as many instants with the gold, one is better if and only if its hull with
    the gold is smaller.
    """
    values = METRICS[name](WORLD[:, :, None], WORLD[:, None, :])  # type: ignore[arg-type]
    shared = np.array([[len(set(range(a, b + 1)) & set(range(c, d + 1))) for c, d in WORLD.T] for a, b in WORLD.T])
    hull = np.array([[max(b, d) - min(a, c) + 1 for c, d in WORLD.T] for a, b in WORLD.T])
    same = shared[:, :, None] == shared[:, None, :]
    better = values[:, :, None] > values[:, None, :]
    smaller = hull[:, :, None] < hull[:, None, :]
    return int((same & (better != smaller)).sum())


def test_property_p_holds_for_aeiou_and_not_for_iou_and_giou() -> None:
    assert against_property_p("aeiou") == 0
    assert against_property_p("iou") > 0
    assert against_property_p("giou") > 0


INSTANT = st.integers(spans.OPEN_BEGIN, spans.OPEN_END) | st.integers(-5, 5)
SPAN = st.tuples(INSTANT, INSTANT)


@pytest.mark.parametrize("name", METRICS)
@given(gold=SPAN, predicted=SPAN)
def test_values_are_from_0_to_1_whatever_the_spans(
    name: str, gold: tuple[int, int], predicted: tuple[int, int]
) -> None:
    with warnings.catch_warnings(action="error"):
        assert 0 <= value(name, gold, predicted) <= 1
    assert value(name, gold, gold) == 1


def test_at_k_is_the_best_of_the_first_k() -> None:
    begins = np.array([[2003, 2000, 1990], [1950, 1960, 1969]])
    gold = np.array([2000, 1969]), np.array([2000, 1969])
    found = time_scores(gold, (begins, begins), at=(1, 2, 3, 10))
    assert found["aeiou@1"].tolist() == [1 / 4, 1 / 20]
    assert found["aeiou@2"].tolist() == [1, 1 / 10]
    assert found["aeiou@3"].tolist() == found["aeiou@10"].tolist() == [1, 1]
    means = time_metrics(gold, (begins, begins))
    assert set(means) == {f"{name}@{k}" for name in ("tac", "iou", "giou", "aeiou", "gaeiou") for k in (1, 5, 10)}
    assert means["aeiou@1"] == (1 / 4 + 1 / 20) / 2
    assert means["iou@1"] == 0


def test_no_queries_give_zeros() -> None:
    none, nothing = np.empty(0, np.int64), np.empty((0, 10), np.int64)
    assert set(time_metrics((none, none), (nothing, nothing)).values()) == {0.0}


PREDICTIONS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=4, max_size=4)


@given(gold=st.tuples(st.integers(0, 30), st.integers(0, 30)), predicted=PREDICTIONS)
def test_more_predictions_are_never_worse(gold: tuple[int, int], predicted: list[tuple[int, int]]) -> None:
    begins, ends = np.array(predicted).T[:, None, :]
    found = time_scores((np.array([gold[0]]), np.array([gold[1]])), (begins, ends), at=range(1, 5))
    for name in METRICS:
        values = [float(found[f"{name}@{k}"][0]) for k in range(1, 5)]
        assert all(earlier <= later for earlier, later in itertools.pairwise(values))
        assert values[-1] == max(value(name, gold, each) for each in predicted)


def test_gaeiou_tells_gaps_apart_that_aeiou_does_not() -> None:
    """The hull is the same, the gap is not."""
    assert aeiou((0, 0), (5, 9)) == aeiou((0, 0), (2, 9))
    assert gaeiou((0, 0), (5, 9)) < gaeiou((0, 0), (2, 9))
