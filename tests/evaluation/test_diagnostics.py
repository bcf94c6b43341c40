"""Diagnostics: violations, distances and curves that a person can check."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import facts_of, placed_of
from torch import Tensor

from timeplex.errors import InputError
from timeplex.evaluation import diagnostics
from timeplex.evaluation.diagnostics import across_time, time_distances, top_subjects, violations
from timeplex.evaluation.ranking import PlacedFacts
from timeplex.kb import spans
from timeplex.kb.dates import Granularity, day_number
from timeplex.kb.facts import Facts
from timeplex.kb.timeline import Timeline
from timeplex.models import MODELS
from timeplex.models.base import Model, Space, Span
from timeplex.patterns.orderings import Ordering

BORN, WON, DIED = range(3)
OPEN = spans.OPEN_BEGIN
BORN_WON, WON_DIED, BORN_DIED = (Ordering(*pair, 1, 1, 1) for pair in ((BORN, WON), (WON, DIED), (BORN, DIED)))


def facts(*rows: tuple[int, int, int, int]) -> Facts:
    """From (s, r, o, begin); ends are open."""
    return facts_of((*row, spans.OPEN_END) for row in rows)


def entities(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(numbers, np.int64)


# --- orderings -----------------------------------------------------------------------------------------


class ByObject:
    """A scorer that likes one subject for each object."""

    def __init__(self, likes: dict[int, int], entities: int) -> None:
        self.table = torch.zeros(entities, entities)
        for o, s in likes.items():
            self.table[o, s] = 1.0

    def objects(self, s: Tensor, r: Tensor, span: Span) -> Tensor:
        raise AssertionError("only subjects are asked for")

    def subjects(self, r: Tensor, o: Tensor, span: Span) -> Tensor:
        return self.table[o]


def test_the_papers_example() -> None:
    """(?, hasWonPrize, Nobel, 1925) answered with somebody who was born in 1961."""
    obama, hawaii, nobel, curie = range(4)
    queries = facts((curie, WON, nobel, 1925), (curie, WON, nobel, 1961), (curie, WON, nobel, 2009))
    known = facts((curie, WON, nobel, 1903), (obama, BORN, hawaii, 1961))
    timeline = Timeline.of([1903, 2009], Granularity.YEAR, "calendar")
    top = top_subjects(ByObject({nobel: obama}, 4), PlacedFacts.of(queries, timeline), entities=4)
    assert top.tolist() == [obama] * 3
    found = violations(top, queries, known, [BORN_DIED, BORN_WON])
    assert (found.query.tolist(), found.subject.tolist()) == ([0], [obama])
    assert (found.ordering.tolist(), found.fact.tolist()) == ([1], [1])
    assert found.share == pytest.approx(1 / 3)


def test_the_query_may_be_either_side_of_an_ordering() -> None:
    known = facts((0, WON, 9, 1950), (1, WON, 9, 1950))
    queries = facts((5, BORN, 9, 1960), (5, DIED, 9, 1940), (5, BORN, 9, 1950), (5, DIED, 9, 1950), (5, BORN, 9, 1940))
    found = violations(entities(0, 1, 0, 1, 0), queries, known, [BORN_WON, WON_DIED, BORN_DIED])
    assert list(zip(found.query.tolist(), found.ordering.tolist(), found.fact.tolist(), strict=True)) == [
        (0, 0, 0),
        (1, 1, 1),
    ]
    assert found.share == 2 / 5


def test_a_query_counts_once_however_much_it_breaks() -> None:
    known = facts((0, BORN, 9, 1990), (0, WON, 8, 1980), (0, WON, 7, 1985))
    found = violations(entities(0, 3), facts((5, DIED, 9, 1970), (5, DIED, 9, 1970)), known, [WON_DIED, BORN_DIED])
    assert found.query.tolist() == [0, 0, 0]
    assert (found.ordering.tolist(), found.fact.tolist()) == ([0, 0, 1], [1, 2, 0])
    assert found.share == 0.5


def test_unknown_begins_break_nothing() -> None:
    known = facts((0, BORN, 9, OPEN), (0, WON, 9, 1950), (1, DIED, 9, OPEN))
    queries = facts((5, WON, 9, 1900), (5, BORN, 9, OPEN), (5, DIED, 9, OPEN), (5, WON, 9, 1950))
    found = violations(entities(0, 0, 0, 1), queries, known, [BORN_WON, WON_DIED])
    assert (len(found.query), found.share) == (0, 0.0)


def test_no_queries_no_facts_no_orderings() -> None:
    some = facts((0, DIED, 1, 1900))
    assert violations(entities(), Facts.empty(), some, [BORN_DIED]).share == 0.0
    assert violations(entities(0), some, Facts.empty(), [BORN_DIED]).share == 0.0
    assert violations(entities(0), some, facts((0, BORN, 1, 1950)), []).share == 0.0


FACTS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 2), st.just(0), st.integers(0, 4) | st.just(OPEN)), max_size=10
)
ORDERINGS = st.lists(st.permutations(range(3)).map(lambda order: Ordering(order[0], order[1], 1, 1, 1)), max_size=4)


@given(asked=FACTS, known=FACTS, orderings=ORDERINGS, seed=st.integers(0, 9))
def test_violations_are_those_of_a_loop(asked, known, orderings, seed) -> None:  # type: ignore[no-untyped-def]
    subjects = np.random.default_rng(seed).integers(0, 3, len(asked))
    expected = []
    for query, (_, r, _, t) in enumerate(asked):
        for number, ordering in enumerate(orderings):
            for row, (s, stated, _, begin) in enumerate(known):
                pair = {(r, stated): (t, begin), (stated, r): (begin, t)}.get((ordering.first, ordering.second))
                if s == subjects[query] and pair is not None and OPEN not in pair and pair[0] > pair[1]:
                    expected.append((query, number, row))
    found = violations(subjects, facts(*asked), facts(*known), orderings)
    assert list(zip(found.query.tolist(), found.ordering.tolist(), found.fact.tolist(), strict=True)) == expected
    assert found.subject.tolist() == [subjects[query] for query, _, _ in expected]


def test_top_subjects_of_small_blocks_and_ties(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    scorer = ByObject({0: 2, 1: 1, 2: 0}, 4)
    queries = placed_of((3, 0, o, 0, 0) for o in (0, 1, 2, 3))
    assert top_subjects(scorer, queries, entities=4).tolist() == [2, 1, 0, 0]  # nobody is liked for 3: all tie
    monkeypatch.setattr("timeplex.evaluation.diagnostics.CHUNK_BYTES", 1)
    assert top_subjects(scorer, queries, entities=4).tolist() == [2, 1, 0, 0]


# --- distances -----------------------------------------------------------------------------------------


class Placed:
    """As much of a model as `time_distances` looks at."""

    name = "placed"

    def __init__(self, table: Tensor | None) -> None:
        self.table = table

    def time_table(self) -> Tensor | None:
        return self.table


def model_with(table: list[list[float]] | None) -> Model:
    return Placed(None if table is None else torch.tensor(table, requires_grad=True))  # type: ignore[return-value]


def test_distances_by_hand_on_a_timeline_with_holes() -> None:
    # 1990, 1991, 1993 lie at 0, 3, 7 on a line; 1980 lies at (0, 4), far off in time.
    model = model_with([[0.0, 4.0], [0.0, 0.0], [3.0, 0.0], [7.0, 0.0]])
    timeline = Timeline.of([1980, 1990, 1991, 1993], Granularity.YEAR, "observed")
    found = time_distances(model, timeline, (1990, 1993), least_pairs=1)
    assert found.gap.tolist() == [1, 2, 3]
    assert found.distance.tolist() == [3.0, 4.0, 7.0]
    assert found.pairs.tolist() == [1, 1, 1]
    everything = time_distances(model, timeline, least_pairs=1)
    assert everything.gap.tolist() == [1, 2, 3, 10, 11, 13]
    assert everything.distance[3:].tolist() == pytest.approx([4.0, 5.0, np.sqrt(65)])


def test_distances_are_means_and_rare_gaps_are_dropped() -> None:
    model = model_with([[0.0], [1.0], [3.0], [6.0]])
    timeline = Timeline.of(range(2000, 2004), Granularity.YEAR, "calendar")
    found = time_distances(model, timeline, least_pairs=2)
    assert (found.gap.tolist(), found.pairs.tolist()) == ([1, 2], [3, 2])
    assert found.distance.tolist() == [2.0, 4.0]
    assert time_distances(model, timeline).gap.tolist() == []  # thirty pairs are asked for


def test_distances_in_small_blocks_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    years = np.sort(random.choice(60, 30, replace=False)) + 1950
    model, timeline = model_with(random.normal(size=(30, 2)).tolist()), Timeline.of(years, Granularity.YEAR, "observed")
    whole = time_distances(model, timeline, least_pairs=1)
    monkeypatch.setattr(diagnostics, "MOST_PAIRS", 70)
    parts = time_distances(model, timeline, least_pairs=1)
    assert parts.gap.tolist() == whole.gap.tolist()
    assert parts.pairs.tolist() == whole.pairs.tolist()
    assert parts.distance.tolist() == pytest.approx(whole.distance.tolist())


def test_small_distances_of_far_vectors_are_kept() -> None:
    model = model_with([[1e8, 0.0], [1e8, 1e-3]])
    timeline = Timeline.of([2000, 2001], Granularity.YEAR, "calendar")
    assert time_distances(model, timeline, least_pairs=1).distance.tolist() == pytest.approx([1e-3])


def test_windows_are_years_and_gaps_are_instants() -> None:
    days = day_number([1999, 2000, 2000, 2001], [12, 1, 12, 1], [31, 1, 31, 1])
    timeline = Timeline.of(days, Granularity.DAY, "observed")
    found = time_distances(model_with([[0.0], [1.0], [5.0], [9.0]]), timeline, (2000, 2000), least_pairs=1)
    assert (found.gap.tolist(), found.distance.tolist(), found.granularity) == ([365], [4.0], Granularity.DAY)


def test_a_real_model_has_distances() -> None:
    options = MODELS["timeplex-base"].options_type(dimension=3)
    model = MODELS["timeplex-base"](Space.plain(2, 1, 40), options)
    timeline = Timeline.of(range(1900, 1940), Granularity.YEAR, "calendar")
    found = time_distances(model, timeline)
    assert found.gap.tolist() == list(range(1, 11))
    assert found.pairs.tolist() == list(range(39, 29, -1))
    table = model.time_table()
    assert table is not None
    assert found.distance[0] == pytest.approx(float((table[1:] - table[:-1]).detach().norm(dim=1).mean()), rel=1e-5)


def test_a_model_without_time_embeddings_is_refused() -> None:
    with pytest.raises(InputError, match="placed has no embeddings of instants"):
        time_distances(model_with(None), Timeline.of([2000], Granularity.YEAR, "calendar"))


# --- across time ---------------------------------------------------------------------------------------


class Dated:
    """A scorer with the same scores for each fact, which remembers what it was asked."""

    def __init__(self, scores: list[float]) -> None:
        self.scores = torch.tensor(scores)
        self.asked: list[int] = []

    def times(self, s: Tensor, r: Tensor, o: Tensor) -> Tensor:
        self.asked = [int(s), int(r), int(o)]
        return self.scores[None, :]


def test_curves_are_normalised_over_the_whole_timeline_and_cut_to_the_window() -> None:
    log = float(np.log(3))
    one, other = Dated([0.0, 0.0, log, log]), Dated([log, 0.0])
    years = Timeline.of([1840, 1850, 2010, 2011], Granularity.YEAR, "observed")
    few = Timeline.of([1900, 1999], Granularity.YEAR, "observed")
    curves = across_time({"one": (one, years), "other": (other, few)}, (7, 8, 9))
    assert one.asked == other.asked == [7, 8, 9]
    assert list(curves) == ["one", "other"]
    assert curves["one"].instants.tolist() == [1850, 2010]
    assert curves["one"].probability.tolist() == pytest.approx([1 / 8, 3 / 8])
    assert curves["other"].instants.tolist() == [1900, 1999]
    assert curves["other"].probability.tolist() == pytest.approx([3 / 4, 1 / 4])
    assert across_time({"one": (one, years)}, (7, 8, 9), (1840, 1849))["one"].instants.tolist() == [1840]
