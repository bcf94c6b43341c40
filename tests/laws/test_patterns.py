"""Every registered pattern keeps every law, on small evidence with all that is awkward."""

import runpy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from timeplex.patterns import dating, ranking  # noqa: F401 whose patterns are registered
from timeplex.patterns.base import PATTERNS, Because, LinkQueries, Pattern, Side, TimeQueries, register
from timeplex.testing import check_pattern
from timeplex.testing.patterns import LAWS, Case, Law, Sizes
from timeplex.typing import Features

EXAMPLES = 25
SIZES = st.builds(Sizes.drawn, st.randoms(use_true_random=False))
EXAMPLE = Path(__file__).parents[2] / "examples" / "my_pattern.py"


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """No test leaves a pattern behind."""
    before = dict(PATTERNS)
    yield
    PATTERNS.clear()
    PATTERNS.update(before)


def keeps(law: Law, name: str) -> None:
    @settings(max_examples=EXAMPLES)
    @given(sizes=SIZES, seed=st.integers(0, 2**31))
    def holds(sizes: Sizes, seed: int) -> None:
        case = Case(PATTERNS[name], sizes, seed)
        note(repr(case))
        law(case)

    holds()


@pytest.mark.parametrize("name", list(PATTERNS))
@pytest.mark.parametrize("law", LAWS.values(), ids=lambda law: law.__name__)
def test_every_pattern_keeps_every_law(law: Law, name: str) -> None:
    keeps(law, name)


@pytest.mark.parametrize("law", LAWS.values(), ids=lambda law: law.__name__)
def test_the_example_keeps_every_law(law: Law) -> None:
    """The pattern that docs/extending.md shows."""
    runpy.run_path(str(EXAMPLE))
    keeps(law, "busy")


def mistaken(mistake: str, folder: Path) -> type[Pattern]:
    """The example with one line of it spoilt."""
    right, wrong = MISTAKES[mistake]
    source, own = EXAMPLE.read_text(), folder / "mistaken.py"
    assert right in source
    own.write_text(source.replace(right, wrong))
    runpy.run_path(str(own))
    return PATTERNS["busy"]


MISTAKES = {
    "itself": ("queries.own, MOST", "0 * queries.own - 1, MOST"),
    "numbers": ("return np.log1p(rows)\n\n", "return rows * queries.s[:, None, None].astype(np.float32)\n\n"),
    "shapes": ("return np.log1p(rows)\n\n", "return np.log(rows)\n\n"),
    "silence": ("return np.log1p(rows)\n\n", "return rows + 1\n\n"),
    "order": ("(evidence.begin <= date)", "(evidence.begin <= date) & (facts % 2 == 0)"),
    "alone": ("(evidence.begin <= date)", "(evidence.begin <= date + row)"),
}


@pytest.mark.parametrize("law", MISTAKES)
def test_a_mistake_breaks_its_law(law: str, tmp_path: Path) -> None:
    found = {result.law: result for result in check_pattern(mistaken(law, tmp_path))}
    assert not found[law].passed
    assert found[law].message


def test_reasons_and_points_are_checked() -> None:
    @register("mistaken")
    class Mistaken(Pattern):
        year_features = ("date",)

        def years(self, queries: TimeQueries, side: Side) -> Features:
            return np.zeros((len(queries), 1, queries.instants(self.evidence).shape[1]), np.float32)

        def because(self, query: TimeQueries, side: Side, at: int) -> list:
            return [Because(0, np.ones(1))] if len(self.evidence) else []

        def points(self, queries: TimeQueries, side: Side) -> tuple:
            one = np.zeros(len(self.evidence), np.int64)
            return one, one, one.astype(float)

    broken = {result.law for result in check_pattern(Mistaken) if not result.passed}
    assert broken == {"reasons", "points"}


def test_a_pattern_that_answers_nothing_is_told_so() -> None:
    class Empty(Pattern):
        def candidates(self, queries: LinkQueries) -> Features:
            return np.zeros((len(queries), 0, self.evidence.entities), np.float32)

    assert "it names no feature" in next(each.message for each in check_pattern(Empty, 1) if each.law == "shapes")
