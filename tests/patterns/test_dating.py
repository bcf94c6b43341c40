"""Dates by patterns: weights, spans and exact days, against brute force and planted truths."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.patterns.days import careers
from tests.patterns.small_evidence import evidence, evidence_of, queries

from timeplex.datasets.synthetic import generate
from timeplex.kb.dates import Granularity
from timeplex.kb.split import split_randomly
from timeplex.patterns import base, dating
from timeplex.patterns.base import SIDES, Evidence, TimeQueries, axis_of
from timeplex.patterns.dating import DateModel, Fitted, Weights, cases, closer, fit_weights, place

# --- the axis ------------------------------------------------------------------------------------------


@given(of=evidence())
def test_an_axis_has_all_dates_or_their_cells(of: Evidence) -> None:
    assert (np.diff(of.axis) >= of.width[:-1]).all()
    facts = of.facts
    for date in [*facts.begin[facts.has_begin].tolist(), *facts.end[facts.has_end].tolist()]:
        cell = np.searchsorted(of.axis, date, side="right") - 1
        assert of.axis[cell] <= date < of.axis[cell] + of.width[cell]


def test_a_long_axis_has_cells() -> None:
    of = evidence_of([(0, 0, 1, 10 * at, 10 * at + 3) for at in range(400)], Granularity.DAY)
    assert len(of.axis) <= base.CELLS + 10
    assert dating.is_coarse(of)
    assert of.width.max() == 8


@given(
    wide=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4)), min_size=1, max_size=5),
    points=st.lists(st.lists(st.integers(-2, 24), max_size=8), min_size=1, max_size=3),
)
def test_every_instant_is_in_one_cell(wide: list[tuple[int, int]], points: list[list[int]]) -> None:
    """Points stand for themselves, the first other instant of a cell for the others; between cells are points alone."""
    cells, at = [], 0
    for free, width in wide:
        cells.append((at + free, width))
        at += free + width
    grid, width = np.array(cells).T
    of = Evidence(evidence_of([]).facts, 4, 2, 0, 0, Granularity.DAY, grid, width)
    asked = TimeQueries(*np.zeros((3, len(points)), np.int64))
    where = np.repeat(np.arange(len(points)), [len(each) for each in points])
    flat = np.array(list(itertools.chain(*points)), np.int64)
    found = closer(asked, of, where, flat, np.empty((len(points), 0), np.int64))
    for row, mine in enumerate(points):
        kept = {point for point in mine if grid[0] <= point < at}
        expected = dict.fromkeys(kept, 1)
        for low, count in cells:
            others = [day for day in range(low, low + count) if day not in kept]
            if others:
                expected[others[0]] = len(others)
        axis, widths = found.instants(of)[row], found.widths(of)[row]
        real = widths > 0
        assert list(zip(axis[real], widths[real], strict=True)) == sorted(expected.items())
        assert (axis[~real] == max(expected)).all()


@given(axis=st.sets(st.integers(0, 30), min_size=1), dates=st.lists(st.integers(-5, 40), min_size=1))
def test_places_are_the_nearest(axis: set[int], dates: list[int]) -> None:
    instants = np.array(sorted(axis))
    for found in (place(instants, dates), dating.places(np.tile(instants, (len(dates) + 1, 1))[1:], dates)):
        assert [abs(instants[at] - date) for at, date in zip(found, dates, strict=True)] == [
            min(abs(instant - date) for instant in axis) for date in dates
        ]


# --- weights -------------------------------------------------------------------------------------------


def loss_of(x: np.ndarray, width: np.ndarray, gold: np.ndarray, r: np.ndarray, low: np.ndarray, w: np.ndarray) -> float:
    """−Σ log Pr(gold), literally; an answer that counts twice is there twice."""
    total = 0.0
    for row, right, relation, first, wide in zip(x, gold, r, low, width, strict=True):
        logits = w[relation] @ row
        total -= logits[right] - np.log(sum(wide[a] * np.exp(logits[a]) for a in range(first, len(logits))))
    return total


@pytest.mark.parametrize("seed", range(5))
def test_the_gradient_is_the_slope(seed: int) -> None:
    chance = np.random.default_rng(seed)
    x = chance.normal(size=(6, 3, 5))
    x[2, 1] = 4.0  # says the same of all
    r, low = chance.integers(2, size=6), chance.integers(3, size=6)
    gold = low + chance.integers(5 - low)
    width = chance.integers(1, 4, size=(6, 5)).astype(float)
    width[np.arange(6), gold] = 1
    weights, gradient = chance.normal(size=(2, 3)), np.zeros((2, 3))
    found = dating._loss(x, width, dating._active(x, low), gold, r, low, weights, gradient)
    assert found == pytest.approx(loss_of(x, width, gold, r, low, weights), rel=1e-9)
    for at in itertools.product(range(2), range(3)):
        step = np.zeros((2, 3))
        step[at] = 1e-5
        up, down = (loss_of(x, width, gold, r, low, weights + sign * step) for sign in (1, -1))
        assert gradient[at] == pytest.approx((up - down) / 2e-5, rel=1e-5, abs=1e-6)


def test_planted_weights_are_found_again() -> None:
    """Answers drawn with known weights, one relation apart from the other: learned to a tenth."""
    chance = np.random.default_rng(0)
    x = chance.normal(size=(6000, 3, 6)).astype(np.float32)
    r = chance.integers(2, size=6000)
    planted = np.array([[1.0, -0.5, 0.0], [1.0, 0.8, 0.0]])
    noise = chance.gumbel(size=(6000, 6))
    gold = (np.einsum("nfa,nf->na", x, planted[r]) + noise).argmax(1)
    found = fit_weights(x, gold, r, 2, shared=1e-6, own=1e-6)
    np.testing.assert_allclose(found.of(np.array([0, 1])), planted, atol=0.1)


def test_a_strong_pull_keeps_the_weights_from_before() -> None:
    chance = np.random.default_rng(1)
    x = chance.normal(size=(50, 2, 4)).astype(np.float32)
    start = Weights(np.array([0.3, -0.2]), np.zeros((1, 2)), np.ones(2))
    gold, r = chance.integers(4, size=50), np.zeros(50, np.int64)
    kept = fit_weights(x, gold, r, 1, start=start, shared=1e4, own=1e4)
    np.testing.assert_allclose(kept.of(r[:1]), start.of(r[:1]), atol=1e-3)
    moved = fit_weights(x, gold, r, 1, start=start, shared=1e-6, own=1e-6)
    assert np.abs(moved.of(r[:1]) - start.of(r[:1])).max() > 0.05


def test_what_only_fills_up_a_row_counts_nothing() -> None:
    """However much a place of width 0 is spoken for, weights are those without it."""
    chance = np.random.default_rng(3)
    x = chance.normal(size=(60, 2, 4)).astype(np.float32)
    gold, r = x.sum(1).argmax(1), np.zeros(60, np.int64)
    filled = np.concatenate([x, np.full((60, 2, 1), 500, np.float32)], 2)
    width = np.tile([1, 1, 1, 1, 0], (60, 1))
    found = [
        fit_weights(of, gold, r, 1, width=wide, start=Weights(np.ones(2), np.zeros((1, 2)), np.ones(2)))
        for of, wide in ((x, width[:, :4]), (filled, width))
    ]
    np.testing.assert_allclose(found[1].of(r[:1]), found[0].of(r[:1]), rtol=1e-5)


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = np.random.default_rng(2)
    x = chance.normal(size=(99, 4, 7)).astype(np.float32)
    gold, r = chance.integers(7, size=99), chance.integers(3, size=99)
    found = []
    for threads in (1, 4):
        monkeypatch.setattr(dating.os, "cpu_count", lambda threads=threads: threads)
        found.append(fit_weights(x, gold, r, 3).of(np.arange(3)))
    np.testing.assert_array_equal(*found)


# --- spans ---------------------------------------------------------------------------------------------


def aeiou(one: tuple[int, int], other: tuple[int, int]) -> float:
    shared = min(one[1], other[1]) - max(one[0], other[0]) + 1
    return max(shared, 1) / (max(one[1], other[1]) - min(one[0], other[0]) + 1)


@settings(max_examples=60)
@given(seed=st.integers(0, 2**31), size=st.integers(2, 7), top=st.integers(1, 3), sharp=st.floats(0.1, 4))
def test_spans_have_the_best_expected_aeiou(seed: int, size: int, top: int, sharp: float) -> None:
    chance = np.random.default_rng(seed)
    axis = np.cumsum(chance.integers(1, 4, size=size))
    places = np.sort(chance.permutation(size)[: chance.integers(1, size + 1)])
    likely = chance.dirichlet(np.full(len(places), sharp))
    ends = np.zeros((len(places), size))
    for row, low in zip(ends, places, strict=True):
        row[low:] = chance.dirichlet(np.full(size - low, sharp))
    begin, end = np.empty((1, top), np.int64), np.empty((1, top), np.int64)
    dating._decode(axis[None], places[None], likely[None], ends[None], begin, end)
    mass = {
        (int(axis[low]), int(axis[last])): likely[at] * ends[at, last]
        for at, low in enumerate(places)
        for last in range(low, size)
    }
    # A span that is next to impossible is no candidate, however well it would do.
    candidates = [one for one, share in mass.items() if share > dating.UNLIKELY * max(mass.values())]
    worth = {one: sum(share * aeiou(one, other) for other, share in mass.items()) for one in candidates}
    best = sorted(worth.values(), reverse=True)
    for nth in range(min(top, len(best))):
        assert worth[int(begin[0, nth]), int(end[0, nth])] == pytest.approx(best[nth], abs=1e-4)


@pytest.mark.parametrize("support", [3, 9, 400])
def test_the_likeliest_spans_are_those(support: int) -> None:
    chance = np.random.default_rng(support)
    likely, ends = chance.dirichlet(np.ones(5)), chance.dirichlet(np.ones(6), size=5)
    span, mass = dating._likeliest(likely, ends, support)
    every = (likely[:, None] * ends).ravel()
    order = np.argsort(-every)[: min(support, 30)]
    assert span.tolist() == order.tolist()
    np.testing.assert_array_equal(mass, every[order])


@settings(max_examples=25)
@given(data=st.data(), seed=st.integers(0, 2**31))
def test_ends_given_begins_are_the_softmax_of_their_features(data: st.DataObject, seed: int) -> None:
    of = data.draw(evidence())
    asked = data.draw(queries(of))
    chance = np.random.default_rng(seed)
    fitted = Fitted.of(of)
    weights = {}
    for side in base.SIDES:
        count = len(fitted.names(side))
        weights[side] = Weights(
            chance.normal(size=count) / 4, chance.normal(size=(of.relations, count)) / 9, np.ones(count)
        )
    model = DateModel(of, fitted, weights)
    places, likely, ends = model.joint(asked)
    axis = asked.instants(of)
    begins = model.begins(asked)
    np.testing.assert_allclose(begins.sum(1), 1)
    for row in range(len(asked)):
        here = axis[row if len(axis) > 1 else 0]
        for nth, low in list(enumerate(places[row]))[::10]:
            if likely[row, nth] == 0:
                assert begins[row, low] < dating.RARE * begins[row].max()
                continue
            x = fitted.ends(asked[row : row + 1], here[[low]])[0]
            logits = (weights["end"].of(asked.r[[row]])[0] @ x)[low:]
            width = asked.widths(of)
            expected = np.exp(logits - logits.max()) * width[row if len(width) > 1 else 0, low:]
            np.testing.assert_allclose(ends[row, nth, low:], expected / expected.sum(), rtol=1e-3, atol=1e-6)
            assert not ends[row, nth, :low].any()


def test_the_cases_of_facts_have_their_dates() -> None:
    of = evidence_of([(0, 0, 1, 1990, 1993), (0, 0, 2, 1994, 1999), (1, 1, 2, 1991, 1991)])
    for side in base.SIDES:
        found = cases(Fitted.of(of), of, of.facts, np.arange(3), side)
        assert of.axis[found.gold].tolist() == (of.facts.begin if side == "begin" else of.facts.end).tolist()
        assert found.low.tolist() == ([0, 0, 0] if side == "begin" else place(of.axis, of.facts.begin).tolist())


def test_few_dev_facts_move_the_weights_less_than_many(monkeypatch: pytest.MonkeyPatch) -> None:
    kb = split_randomly(generate(400, 3), seed=3)
    model = DateModel.fit(Evidence.of(kb), names=("usual-dates", "lifespans"))

    def moved(enough: int) -> float:
        monkeypatch.setattr(dating, "ENOUGH_DEV", enough)
        found = model.adjusted(kb.valid)
        return sum(float(np.abs(found.weights[side].shared - model.weights[side].shared).sum()) for side in SIDES)

    count = int(kb.valid.closed.sum())
    assert moved(100 * count) < moved(10 * count) < moved(count)
    assert moved(count) == moved(1)


def test_nothing_known_is_no_error() -> None:
    of = evidence_of([])
    model = DateModel.fit(of)
    begin, end = model.spans(TimeQueries(np.array([0]), np.array([0]), np.array([1])))
    assert begin.tolist() == end.tolist() == [[0]]


# --- exact days ----------------------------------------------------------------------------------------


def test_exact_days_come_out() -> None:
    """Offices that pass from one to the next on a day, marriages stated from both sides, over ten years by day."""
    facts, hidden = careers(offices=60, couples=60, years=10, seed=0)
    of = Evidence(facts, int(facts.o.max()) + 1, 3, 0, 0, Granularity.DAY, *axis_of(facts, Granularity.DAY))
    assert dating.is_coarse(of)
    model = DateModel.fit(of)
    begin, end = model.spans(TimeQueries.of(hidden))
    couple = hidden.r == 1
    assert (begin[couple, 0] == hidden.begin[couple]).mean() >= 0.95
    assert (end[couple, 0] == hidden.end[couple]).mean() >= 0.95
    assert (begin[~couple, 0] == hidden.begin[~couple]).mean() >= 0.7
    assert (end[~couple, 0] == hidden.end[~couple]).mean() >= 0.7
    again = model.spans(TimeQueries.of(hidden[:3]))
    np.testing.assert_array_equal(again[0], begin[:3])
