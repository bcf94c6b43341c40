"""Every registered gadget keeps every law, in both forms, on small KBs with all that is awkward."""

import runpy
from pathlib import Path

import pytest
import torch
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.gadgets import oracle

from timeplex.gadgets import GADGETS
from timeplex.gadgets import pair as pair_module
from timeplex.testing import check_gadget
from timeplex.testing.gadgets import FORMS, LAWS, Case, Law, Sizes, answers, both_ways, close, facts_of

QUICK, SLOW = 24, 200
"""Examples a law, shared among gadgets and forms."""

SIZES = st.builds(Sizes.drawn, st.randoms(use_true_random=False))

pytestmark = pytest.mark.usefixtures("one_thread")


def formula(case: Case) -> None:
    """The scores are those of the oracle, for every candidate and time, without `own` and with it."""
    score = oracle.ORACLES.get(case.kind.name)
    if score is None:
        return
    gadget, ask, facts = case.gadget(), case.asked, oracle.dated(facts_of(case.rows))
    for own in both_ways(ask):
        found = answers(gadget, ask, own)
        for row, (s, r, o, t, place) in enumerate(zip(*(column.tolist() for column in ask), strict=True)):
            exclude, when = (None if own is None else place), case.instants[t]
            entities = range(case.entities)
            expected = {
                "score_at": [score(gadget, facts, s, r, o, when, exclude)],
                "times": [score(gadget, facts, s, r, o, instant, exclude) for instant in case.instants],
                "objects_at": [score(gadget, facts, s, r, each, when, exclude) for each in entities],
                "subjects_at": [score(gadget, facts, each, r, o, when, exclude) for each in entities],
            }
            for name, values in expected.items():
                close(found[name][row].flatten(), torch.tensor(values, dtype=torch.double), name)


ALL = [*LAWS.values(), formula]


def keeps(law: Law, name: str, form: str, examples: int) -> None:
    @settings(max_examples=-(-examples // len(FORMS) // len(GADGETS)))
    @given(sizes=SIZES, seed=st.integers(0, 2**31))
    def holds(sizes: Sizes, seed: int) -> None:
        case = Case(GADGETS[name], form, sizes, seed)
        note(repr(case))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(pair_module, "BLOCK", case.block)  # a case is small: so that it comes in several blocks
            law(case)

    holds()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", GADGETS)
@pytest.mark.parametrize("law", ALL, ids=lambda law: law.__name__)
def test_every_gadget_keeps_every_law(law: Law, name: str, form: str) -> None:
    keeps(law, name, form, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", GADGETS)
@pytest.mark.parametrize("law", ALL, ids=lambda law: law.__name__)
def test_every_gadget_keeps_every_law_on_many_kbs(law: Law, name: str, form: str) -> None:
    keeps(law, name, form, SLOW)


@pytest.mark.parametrize(
    ("law", "name", "sizes", "seed"),
    [("gradients", "recurrence", Sizes(1, 1, 4, 2, 3), 915), ("finite", "pair", Sizes(1, 1, 1, 20, 5), 445270)],
)
def test_cases_that_broke_a_law_once(law: str, name: str, sizes: Sizes, seed: int) -> None:
    """Dates four million years apart; an entity that has facts of the relation itself alone."""
    LAWS[law](Case(GADGETS[name], "paper", sizes, seed))


def test_the_gadgets_of_the_paper_are_there() -> None:
    assert set(oracle.ORACLES) <= set(GADGETS)


@pytest.mark.parametrize("law", ALL, ids=lambda law: law.__name__)
def test_the_example_keeps_every_law(law: Law) -> None:
    """The gadget that docs/extending.md shows."""
    before = dict(GADGETS)
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "my_gadget.py"))
    try:
        keeps(law, "demand", "paper", QUICK)
    finally:
        GADGETS.clear()
        GADGETS.update(before)


def test_a_gadget_with_a_mistake_is_told_from_others() -> None:
    class Biased(GADGETS["recurrence"]):  # type: ignore[misc, name-defined]
        def times(self, *ask: torch.Tensor) -> torch.Tensor:
            return super().times(*ask) + 1

    found = {result.law: result for result in check_gadget(Biased, examples=6)}
    assert not found["agreement"].passed
    assert "differs by 1" in found["agreement"].message
    assert found["sentences"].passed
    assert all(result.passed for result in check_gadget(GADGETS["pair"], examples=6))
