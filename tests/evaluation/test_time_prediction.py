"""Predicted spans: by hand, against literal oracles, and the laws of both decoders."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.benchmark_data import need_data
from tests.builders import facts_of
from tests.evaluation.measures import fit_thresholds, predicted, time_metrics
from torch import Tensor

from timeplex.datasets.benchmarks import load
from timeplex.errors import InputError
from timeplex.evaluation import time_prediction
from timeplex.evaluation.metrics import aeiou
from timeplex.evaluation.ranking import PlacedFacts
from timeplex.evaluation.time_prediction import Durations, Thresholds, fit_durations
from timeplex.kb import spans
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Facts
from timeplex.kb.timeline import Timeline
from timeplex.typing import Floats

in_many_cases = pytest.mark.parametrize("examples", [50, pytest.param(2_000, marks=pytest.mark.slow)])


class Fixed:
    """A scorer that makes the instants of subject s as likely as row s of a table says."""

    def __init__(self, probability: Floats | list[list[float]]) -> None:
        self.scores = torch.from_numpy(np.log(np.asarray(probability, np.float64)))

    def times(self, s: Tensor, r: Tensor, o: Tensor) -> Tensor:
        return self.scores[s]


def timeline_of(*instants: int) -> Timeline:
    return Timeline.of(instants, Granularity.YEAR, "observed")


def facts(*rows: tuple[int, int, int, int]) -> Facts:
    """Facts (s, r, begin, end); which object they have does not matter."""
    return facts_of((s, r, 0, begin, end) for s, r, begin, end in rows)


def thresholds(*theta: float) -> Thresholds:
    return Thresholds("grid", np.array(theta))


def decoded(
    decoder: time_prediction.Decoder, row: list[float], timeline: Timeline, top: int = 10
) -> list[tuple[int, int]]:
    """Spans of one query of relation 0."""
    begin, end = decoder.spans(np.array([row]), np.zeros(1, np.int64), timeline, top)
    return list(zip(begin[0].tolist(), end[0].tolist(), strict=True))


# Greedy coalescing ----------------------------------------------------------------------------------------------------

FIVE = timeline_of(1990, 1991, 1995, 1996, 1999)


@pytest.mark.parametrize(
    ("theta", "first", "second"),
    [
        (0.0, (1995, 1995), (1991, 1991)),
        (0.4375, (1995, 1995), (1991, 1995)),  # exactly θ is enough
        (0.5, (1991, 1995), (1991, 1995)),
        (0.6875, (1991, 1995), (1991, 1995)),  # here, too
        (0.7, (1991, 1996), (1991, 1996)),  # 1990 and 1996 have the same: to the right
        (0.9, (1990, 1996), (1990, 1996)),
        (1.0, (1990, 1999), (1990, 1999)),
        (2.0, (1990, 1999), (1990, 1999)),  # not to be reached: the whole timeline
    ],
)
def test_coalescing_by_hand(theta: float, first: tuple[int, int], second: tuple[int, int]) -> None:
    assert decoded(thresholds(theta), [0.125, 0.25, 0.4375, 0.125, 0.0625], FIVE, 2) == [first, second]


def test_equal_instants_are_taken_in_order() -> None:
    assert decoded(thresholds(0), [0.2] * 5, FIVE) == [(year, year) for year in FIVE.instants]


def literal_coalescing(row: list[Fraction], theta: Fraction, rank: int) -> tuple[int, int]:
    """In the words of the paper, with exact numbers."""
    best = sorted(range(len(row)), key=lambda t: (-row[t], t))[rank]
    span = [best]
    while sum(row[t] for t in span) < theta and len(span) < len(row):
        left, right = span[0] - 1, span[-1] + 1
        if right == len(row) or (left >= 0 and row[left] > row[right]):
            span.insert(0, left)
        else:
            span.append(right)
    return span[0], span[-1]


# Sums of these are exact in floating point, too, so that both sides decide alike.
ROWS = st.lists(st.integers(0, 6), min_size=2, max_size=9).filter(any)
THETA = st.integers(0, 64).map(lambda numerator: numerator / 64)


@in_many_cases
def test_coalescing_is_that_of_the_paper(examples: int) -> None:
    @settings(max_examples=examples)
    @given(rows=st.lists(ROWS, min_size=1, max_size=4), theta=st.lists(THETA, min_size=2, max_size=2), data=st.data())
    def holds(rows: list[list[int]], theta: list[float], data: st.DataObject) -> None:
        length = min(len(row) for row in rows)
        table = np.array([row[:length] for row in rows]) / 64  # need not add up to 1
        r = np.array(data.draw(st.lists(st.integers(0, 1), min_size=len(rows), max_size=len(rows))))
        timeline = timeline_of(*range(length))
        first, last = thresholds(*theta).spans(table, r, timeline, 10)
        assert first.shape == last.shape == (len(rows), length)
        for query, rank in np.ndindex(first.shape):
            row = [Fraction(each) for each in table[query].tolist()]
            expected = literal_coalescing(row, Fraction(theta[r[query]]), rank)
            assert (first[query, rank], last[query, rank]) == expected

    holds()


@in_many_cases
def test_laws_of_coalescing(examples: int) -> None:
    @settings(max_examples=examples)
    @given(seed=st.integers(0, 2**32 - 1), sharpness=st.floats(0, 5), low=st.floats(0, 1), high=st.floats(0, 1))
    def holds(seed: int, sharpness: float, low: float, high: float) -> None:
        table = np.exp(sharpness * np.random.default_rng(seed).normal(size=(6, 20)))
        table /= table.sum(1, keepdims=True)
        low, high = min(low, high), max(low, high)
        timeline = timeline_of(*range(20))
        short, long = (thresholds(theta).spans(table, np.zeros(6, np.int64), timeline, 5) for theta in (low, high))
        for (first, last), theta in ((short, low), (long, high)):
            assert ((first >= 0) & (first <= last) & (last < 20)).all()
            up_to = np.pad(np.cumsum(table, axis=1), ((0, 0), (1, 0)))
            mass = np.take_along_axis(up_to, last + 1, 1) - np.take_along_axis(up_to, first, 1)
            assert ((mass >= theta - 1e-12) | (last - first == 19)).all()
        assert ((long[0] <= short[0]) & (short[1] <= long[1])).all()  # a greater θ never gives less
        start = np.argsort(-table, axis=1, kind="stable")[:, :5]
        assert ((short[0] <= start) & (start <= short[1])).all()

    holds()


# Thresholds -----------------------------------------------------------------------------------------------------------

THREE = timeline_of(2000, 2001, 2005)
SCORER = Fixed([[0.105, 0.595, 0.3], [0.5, 0.25, 0.25]])
OPEN = spans.OPEN_END


def test_mean_mass_by_hand() -> None:
    dev = facts((0, 0, 2001, 2005), (1, 0, 2000, 2000), (0, 2, 2000, 2001), (0, 1, 2001, OPEN))
    found = fit_thresholds(SCORER, dev, THREE, "mean-mass", relations=4)
    # The golds of relation 0 hold 0.895 and 0.5, that of 2 holds 0.7; 1 has no fact with both ends and 3 none at all.
    np.testing.assert_allclose(found.theta, [0.6975, 0.69875, 0.7, 0.69875])
    turned = facts((0, 0, 2005, 2000))  # ends before it begins, and so holds nothing
    assert fit_thresholds(SCORER, turned, THREE, "mean-mass", relations=1).theta.tolist() == [0.0]


def test_grid_by_hand() -> None:
    dev = facts((0, 0, 2001, 2005), (0, 1, 2001, 2001), (0, 1, 2001, 2001), (0, 2, 2000, 2005))
    found = fit_thresholds(SCORER, dev, THREE, "grid", relations=4)
    # The span is [2001] up to θ = 0.595, then [2001, 2005] up to 0.895, then all; the least of the best θ is taken.
    # Over all facts the aeIOU are (1/5 + 1 + 1 + 1/6) / 4, (1 + 1/5 + 1/5 + 5/6) / 4 and (5/6 + 1/6 + 1/6 + 1) / 4.
    assert found.theta.tolist() == [0.6, 0.0, 0.9, 0.0]


@pytest.mark.parametrize(
    ("rule", "theta", "begins"),
    [
        ("mean-mass", 0.0, [2001, 2005, 2000]),
        ("grid", 0.6, [2001, 2001, 2000]),  # for the gold [2002, 2003] the span [2001, 2005] is better than [2001]
    ],
)
def test_golds_that_are_not_on_the_timeline_do_no_harm(
    rule: time_prediction.Rule, theta: float, begins: list[int]
) -> None:
    strangers = [(0, 0, 1900, 1901), (0, 0, 2002, 2003), (0, 0, 3000, 3001)]
    found = fit_thresholds(SCORER, facts(*strangers), THREE, rule, relations=1)
    assert found.theta.tolist() == [theta]
    placed = PlacedFacts.of(facts(*strangers), THREE)
    outside = PlacedFacts(placed.s, placed.r, placed.o, placed.first - 9, placed.last + 9)
    assert predicted(SCORER, outside, THREE, found)[0].tolist() == [begins] * 3


def test_only_facts_with_both_ends_are_judged() -> None:
    some = facts((0, 0, 2000, 2001), (1, 0, spans.OPEN_BEGIN, 2001), (2, 0, 2000, OPEN), (3, 0, 2000, 2000))
    assert time_prediction.both_ends_known(some).s.tolist() == [0, 3]


def test_thresholds_need_dev_facts() -> None:
    with pytest.raises(InputError, match="both a begin and an end"):
        fit_thresholds(SCORER, facts((0, 0, 2001, OPEN)), THREE, "grid", relations=1)


# Expected aeIOU -------------------------------------------------------------------------------------------------------


def test_expected_aeiou_by_hand() -> None:
    eleven = timeline_of(*range(11))
    sure = [float(t == 5) for t in range(11)]
    # The span is one of [3, 5], [4, 6], [5, 7]; the middle one is worth (1 + 2/4 + 2/4) / 3.
    assert decoded(Durations(np.array([[3]])), sure, eleven, 1) == [(4, 6)]
    # Events: 5 is worth 0.4 + 0.3 / 2 + 0.3 / 6, 4 is worth 0.4 / 2 + 0.3 + 0.3 / 7, 10 is worth less.
    events = [0.0, 0.0, 0.0, 0.0, 0.3, 0.4, 0.0, 0.0, 0.0, 0.0, 0.3]
    assert decoded(Durations(np.array([[1]])), events, eleven, 2) == [(5, 5), (4, 4)]
    # Four of five facts last 5: [3, 7] is worth 1/5 · 1/5 + 4/5 · (1 + 2 · 4/6 + 2 · 3/7) / 5, [5, 5] 1/5 + 4/5 · 1/5.
    assert decoded(Durations(np.array([[1, 5, 5, 5, 5]])), sure, eleven, 1) == [(3, 7)]
    # No span may end after the timeline does.
    late = [0.0] * 10 + [1.0]
    assert decoded(Durations(np.array([[3]])), late, eleven, 1) == [(8, 10)]


def literal_worths(row: list[float], levels: list[int], instants: list[int]) -> dict[tuple[int, int], float]:
    """Expected aeIOU of every candidate by the formula, sum by sum."""
    worths = {}
    for begin in instants:
        for end in {begin + duration - 1 for duration in [1, *levels]}:
            if end > instants[-1]:
                continue
            worth = 0.0
            for t, probability in zip(instants, row, strict=True):
                for d in levels:
                    for b in range(t - d + 1, t + 1):
                        shared = min(end, b + d - 1) - max(begin, b) + 1
                        hull = max(end, b + d - 1) - min(begin, b) + 1
                        worth += probability / len(levels) / d * max(1, shared) / hull
            worths[begin, end] = worth
    return worths


@pytest.mark.parametrize("most_cells", [time_prediction.MOST_CELLS, 0], ids=["by products", "on a grid"])
@in_many_cases
def test_no_span_has_a_higher_expected_aeiou(examples: int, most_cells: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_prediction, "MOST_CELLS", most_cells)

    @settings(max_examples=examples)
    @given(
        years=st.sets(st.integers(-12, 12), min_size=1, max_size=8).map(sorted),
        levels=st.lists(st.integers(1, 7), min_size=4, max_size=4),
        seed=st.integers(0, 2**32 - 1),
        sharpness=st.floats(0, 4),
    )
    def holds(years: list[int], levels: list[int], seed: int, sharpness: float) -> None:
        table = np.exp(sharpness * np.random.default_rng(seed).normal(size=(3, len(years))))
        table /= table.sum(1, keepdims=True)
        decoder = Durations(np.array([levels[:2], levels[2:]]))
        r = np.array([1, 0, 1])
        begins, ends = decoder.spans(table, r, timeline_of(*years), 3)
        for query in range(3):
            worths = literal_worths(table[query].tolist(), decoder.levels[r[query]].tolist(), years)
            found = [worths[span] for span in zip(begins[query].tolist(), ends[query].tolist(), strict=True)]
            by_begin = [max(worth for span, worth in worths.items() if span[0] == begin) for begin in years]
            np.testing.assert_allclose(found, sorted(by_begin, reverse=True)[:3], rtol=0, atol=1e-6)
            assert len(set(begins[query])) == min(3, len(years))

    holds()


def test_a_coarse_grid_finds_nearly_the_best_span(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells of four instants: what is lost is little if facts last longer than a cell, or are events."""
    years, random = list(range(1900, 1960)), np.random.default_rng(3)
    middle = random.uniform(1905, 1955, size=(8, 1))
    table = np.exp(-(((np.array(years) - middle) / random.uniform(2, 9, size=(8, 1))) ** 2))
    table /= table.sum(1, keepdims=True)
    monkeypatch.setattr(time_prediction, "MOST_CELLS", 0)
    monkeypatch.setattr(time_prediction, "MOST_GRID", 15)
    for levels in ([12, 16, 20, 25], [1, 1, 1, 1]):
        begins, ends = Durations(np.array([levels])).spans(table, np.zeros(8, np.int64), timeline_of(*years), 2)
        assert (begins[:, 0] != begins[:, 1]).all()
        for row, begin, end in zip(table.tolist(), begins[:, 0].tolist(), ends[:, 0].tolist(), strict=True):
            worths = literal_worths(row, levels, years)
            assert worths[begin, end] >= 0.93 * max(worths.values())


def test_a_long_timeline_costs_no_more_than_a_grid() -> None:
    """Twenty thousand years by day, once ten thousand calendar tables wide: the same span as on the instants alone."""
    random = np.random.default_rng(0)
    instants = np.unique(np.append([-4_371_953, 2_932_896], random.integers(10_000, 20_000, 300)))
    table = np.zeros((1, len(instants)))
    table[0, 150:153] = 0.5, 0.3, 0.2
    levels = np.array([[1] * 60 + [4_000_000] * 4])
    begins, ends = Durations(levels).spans(
        table, np.zeros(1, np.int64), Timeline.of(instants, Granularity.DAY, "observed"), 10
    )
    assert (begins[0, 0], ends[0, 0]) == (instants[150], instants[150])
    assert begins.shape == (1, 10)


def test_values_are_those_of_the_metric() -> None:
    durations = np.array([1, 2, 5, 9, 30])
    for d, extent in ((1, 0), (1, 12), (4, 3), (7, 25), (40, 2)):
        begins = np.arange(-extent - d + 1, extent + 1)
        expected = aeiou((np.zeros((5, 1), int), durations[:, None] - 1), (begins, begins + d - 1))
        assert np.array_equal(time_prediction._values(durations, d, begins), expected)


def test_durations_by_hand() -> None:
    train = [(0, 0, 2000, 2001)] * 3 + [(0, 0, 2000, 2004), (0, 1, 2000, 2000), (0, 1, 1999, 1999), (0, 1, 1999, OPEN)]
    found = fit_durations(facts(*train), relations=3)
    # Over all facts 1, 2, 5 instants have 2/6, 3/6, 1/6; relation 0 has (1/3, 3 1/2, 1 1/6) / 5. Level i is at the
    # quantile 0.9 (i + 1/2) / 64: there are 5 up to 1/15, 55 up to 23/30.
    counts = [np.unique(row, return_counts=True)[1].tolist() for row in found.levels]
    assert counts == [[5, 50, 9], [55, 9], [24, 35, 5]]
    assert np.unique(found.levels[0]).tolist() == [1, 2, 5]
    assert (fit_durations(Facts.empty(), relations=2).levels == 1).all()


# The whole way --------------------------------------------------------------------------------------------------------


def a_world() -> tuple[Fixed, Facts, Timeline]:
    random = np.random.default_rng(7)
    years = np.sort(random.choice(60, 25, replace=False))
    begin = random.choice(years, 30)
    end = np.minimum(begin + random.integers(0, 9, 30), years[-1])
    some = facts(*zip(range(30), random.integers(0, 3, 30), begin, end, strict=True))
    return Fixed(random.dirichlet(np.ones(25), 30)), some, timeline_of(*years)


def decoders(scorer: Fixed, facts: Facts, timeline: Timeline) -> list[time_prediction.Decoder]:
    return [
        fit_thresholds(scorer, facts, timeline, "mean-mass", relations=3),
        fit_thresholds(scorer, facts, timeline, "grid", relations=3),
        fit_durations(facts, relations=3),
    ]


@pytest.mark.parametrize("way", range(3))
def test_predictions_lie_on_the_timeline(way: int) -> None:
    scorer, facts, timeline = a_world()
    decoder = decoders(scorer, facts, timeline)[way]
    begin, end = predicted(scorer, PlacedFacts.of(facts, timeline), timeline, decoder)
    assert begin.shape == end.shape == (30, 10)
    assert np.isin(begin, timeline.instants).all()
    assert ((begin <= end) & (end <= timeline.instants[-1])).all()
    metrics = time_metrics(facts.span, (begin, end))
    assert 0 < metrics["aeiou@1"] < metrics["aeiou@5"] <= metrics["aeiou@10"] <= 1
    none = predicted(scorer, PlacedFacts.of(Facts.empty(), timeline), timeline, decoder)
    assert none[0].shape == none[1].shape == (0, 10)


def test_the_grid_beats_every_single_threshold_where_it_is_fitted() -> None:
    scorer, facts, timeline = a_world()
    queries = PlacedFacts.of(facts, timeline)
    fitted = fit_thresholds(scorer, facts, timeline, "grid", relations=3)
    ways = [fitted, *(thresholds(theta, theta, theta) for theta in time_prediction.GRID)]
    reached = [time_metrics(facts.span, predicted(scorer, queries, timeline, way))["aeiou@1"] for way in ways]
    assert reached[0] == max(reached)


def test_small_blocks_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer, facts, timeline = a_world()
    queries = PlacedFacts.of(facts, timeline)

    def everything() -> list[tuple[list[list[int]], list[list[int]]]]:
        found = [predicted(scorer, queries, timeline, each) for each in decoders(scorer, facts, timeline)]
        return [(begin.tolist(), end.tolist()) for begin, end in found]

    whole = everything()
    monkeypatch.setattr(time_prediction, "BLOCK_BYTES", 25 * 8 * 7)
    monkeypatch.setattr(time_prediction, "SCORES_AT_ONCE", 25 * 3)
    assert everything() == whole


# The benchmarks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "dev", "test"), [("yago11k", 1_241, 1_258), ("wikidata12k", 3_664, 3_682)])
def test_as_many_facts_are_judged_as_in_the_publication(name: str, dev: int, test: int) -> None:
    kb = load(name, need_data(name))
    assert [len(time_prediction.both_ends_known(facts)) for facts in (kb.valid, kb.test)] == [dev, test]
