"""The pair gadget on examples that a person can check, and on the lives of the synthetic KB."""

import math
from itertools import permutations

import numpy as np
import pytest
import torch
from tests.gadgets.cases import Row, facts_of
from tests.gadgets.made_up import synthetic_evidence

from timeplex.datasets.synthetic import SyntheticSpec, Years
from timeplex.errors import InputError
from timeplex.gadgets import Evidence, evidence, pair
from timeplex.gadgets.pair import OBJECT, SUBJECT, Pair

ADA, BOB, CLEO, DAN, EVE, ROME = range(6)
BORN_IN, MARRIED_TO, WORKS_FOR = range(3)
FIRST = 1950
LIVES: list[Row] = [
    (ADA, BORN_IN, ROME, 1970, 1970),
    (ADA, MARRIED_TO, BOB, 1996, 2010),  # 26 years later
    (BOB, BORN_IN, ROME, 1968, 1968),
    (BOB, MARRIED_TO, ADA, 1996, 2010),  # 28
    (CLEO, BORN_IN, ROME, 1960, 1960),
    (CLEO, MARRIED_TO, EVE, 1990, 1991),  # 30
    (DAN, BORN_IN, ROME, 1980, 1980),
]
SIGMA = math.sqrt(8 / 3)
PEAK = 1 / (SIGMA * math.sqrt(2 * math.pi))
"""Of a Gaussian with the sd of 26, 28, 30: 0.2443."""


def gadget_of(rows: list[Row] = LIVES, **options: object) -> Pair:
    evidence = Evidence.of(facts_of(rows), 6, 3, np.arange(FIRST, 2021))
    return Pair(evidence, Pair.options_type(**options))  # type: ignore[arg-type]


def score(gadget: Pair, s: int, r: int, o: int, year: int, own: int | None = None) -> float:
    ask = [torch.tensor([number]) for number in (s, r, o, year - FIRST)]
    return gadget.score_at(*ask, None if own is None else torch.tensor([own])).item()


def test_people_marry_28_years_after_they_are_born() -> None:
    gadget = gadget_of()
    assert float(gadget.mean[SUBJECT, MARRIED_TO, BORN_IN]) == 28
    assert float(gadget.mean[SUBJECT, BORN_IN, MARRIED_TO]) == -28
    assert float(gadget.sigma[SUBJECT, MARRIED_TO, BORN_IN]) == pytest.approx(SIGMA)
    assert int(gadget.cases[SUBJECT, MARRIED_TO, BORN_IN]) == 3
    assert score(gadget, DAN, MARRIED_TO, EVE, 2008) == pytest.approx(PEAK - 0.2)
    assert score(gadget, DAN, MARRIED_TO, EVE, 2010) == pytest.approx(PEAK * math.exp(-4 / (2 * 8 / 3)) - 0.2)
    assert score(gadget, DAN, MARRIED_TO, EVE, 1952) == pytest.approx(-0.2)  # 28 years too early
    assert score(gadget, EVE, MARRIED_TO, DAN, 2008) == 0  # nothing is known of Eve as a subject, or Dan as an object


def test_people_are_born_28_years_before_they_marry() -> None:
    rows: list[Row] = [*LIVES, (EVE, MARRIED_TO, CLEO, 1990, 1991)]
    gadget = gadget_of(rows)
    assert score(gadget, EVE, BORN_IN, DAN, 1962) == pytest.approx(PEAK - 0.2)
    assert score(gadget, EVE, BORN_IN, DAN, 2018) == pytest.approx(-0.2)


def test_a_gap_that_never_varies_has_the_least_sigma() -> None:
    gadget = gadget_of(LIVES[:2])
    assert float(gadget.sigma[SUBJECT, MARRIED_TO, BORN_IN]) == pytest.approx(0.1)
    # Ada's birth 26 years before, exactly as known; Bob is the object of nothing but marriages.
    assert score(gadget, ADA, MARRIED_TO, BOB, 1996) == pytest.approx(1 / (0.1 * math.sqrt(2 * math.pi)) - 0.2)


def test_a_pair_that_nobody_has_gives_the_bias_alone() -> None:
    gadget = gadget_of()
    with torch.no_grad():
        gadget.bias[SUBJECT, WORKS_FOR, BORN_IN] = 0.7
    assert int(gadget.cases[SUBJECT, WORKS_FOR, BORN_IN]) == 0
    for year in (1980, 1981, 2010):
        assert score(gadget, DAN, WORKS_FOR, CLEO, year) == pytest.approx(0.7)


def test_the_weights_say_how_much_each_fact_counts() -> None:
    """Ada, asked for worksFor: birth with b = 1, marriage with b = 5, weights 1 to 3."""
    gadget = gadget_of()
    with torch.no_grad():
        gadget.bias[SUBJECT, WORKS_FOR, BORN_IN], gadget.bias[SUBJECT, WORKS_FOR, MARRIED_TO] = 1, 5
        gadget.weight[SUBJECT, WORKS_FOR, BORN_IN] = 0.5
        gadget.weight[SUBJECT, WORKS_FOR, MARRIED_TO] = 0.5 + math.log(3)
    assert score(gadget, ADA, WORKS_FOR, CLEO, 2000) == pytest.approx((1 + 3 * 5) / 4)
    married_twice = gadget_of([*LIVES, (ADA, MARRIED_TO, CLEO, 1996, 1999)])
    married_twice.load_state_dict(gadget.state_dict())
    assert score(married_twice, ADA, WORKS_FOR, CLEO, 2000) == pytest.approx((1 + 2 * 3 * 5) / 7 - 0.2)


def test_facts_of_the_subject_and_of_the_object_have_tables_of_their_own() -> None:
    """Rome as an object: births of four people."""
    gadget = gadget_of()
    with torch.no_grad():
        gadget.bias[SUBJECT], gadget.bias[OBJECT] = 10, 1
    assert score(gadget, ROME, MARRIED_TO, EVE, 2000) == 0
    assert score(gadget, EVE, MARRIED_TO, ROME, 2000) == pytest.approx(1)
    assert score(gadget, DAN, MARRIED_TO, EVE, 1952) == pytest.approx(10)
    assert score(gadget, DAN, MARRIED_TO, ROME, 1952) == pytest.approx(11)


def test_facts_of_the_same_relation_count_only_in_the_published_code() -> None:
    """Cleo, asked for marriages; her own in 1990 is left out where it is what is asked for."""
    paper, published = gadget_of(), gadget_of(form="published-code")
    for gadget in (paper, published):
        with torch.no_grad():
            gadget.bias[SUBJECT, MARRIED_TO, MARRIED_TO] = 0.5
    assert published.mean[SUBJECT, MARRIED_TO, MARRIED_TO] == 0
    assert score(paper, CLEO, MARRIED_TO, DAN, 1952) == pytest.approx(-0.2)
    assert score(published, CLEO, MARRIED_TO, ADA, 1952) == pytest.approx((-0.2 + 0.5) / 2 - 0.2)  # Ada's by Bob, too
    assert score(published, CLEO, MARRIED_TO, DAN, 1952) == pytest.approx((-0.2 + 0.5) / 2)
    birth = math.exp(-4 / (2 * 8 / 3)) - 0.2  # height 1; the wedding at 30 is 2 from the mean
    assert score(published, CLEO, MARRIED_TO, DAN, 1990) == pytest.approx((birth + 1 + 0.5) / 2)
    assert score(published, CLEO, MARRIED_TO, EVE, 1990) == pytest.approx(birth)
    assert score(published, CLEO, MARRIED_TO, EVE, 1952) == pytest.approx((-0.2 + 0.5) / 2 - 0.2)
    assert score(published, CLEO, MARRIED_TO, EVE, 1952, own=5) == pytest.approx(-0.2)


def test_no_candidate_profits_from_the_fact_that_the_question_is_made_of() -> None:
    """In training, Cleo's marriage is left out for all objects, or the wrong ones would seem to recur at gap 0."""
    gadget = gadget_of(form="published-code")
    ask = [torch.tensor([number]) for number in (CLEO, MARRIED_TO, 1990 - FIRST)]
    rows = gadget.objects_at(*ask, own=torch.tensor([5]))[0].tolist()
    birth = math.exp(-4 / (2 * 8 / 3)) - 0.2
    assert rows[DAN] == pytest.approx(birth)
    assert rows[EVE] == pytest.approx(birth)
    subjects = [torch.tensor([number]) for number in (MARRIED_TO, EVE, 1990 - FIRST)]
    assert gadget.subjects_at(*subjects, own=torch.tensor([5]))[0, ROME] == 0


def test_reasons_are_shares_of_the_mean() -> None:
    gadget = gadget_of()
    with torch.no_grad():
        gadget.bias[SUBJECT, WORKS_FOR, BORN_IN], gadget.bias[SUBJECT, WORKS_FOR, MARRIED_TO] = 1, 5
        gadget.bias[OBJECT, WORKS_FOR] = -8
    found = gadget.reasons(ADA, WORKS_FOR, BOB, 2000 - FIRST)
    assert [(reason.fact, reason.side, reason.gap) for reason in found] == [
        (1, "object", 4),
        (1, "subject", 4),
        (0, "subject", 30),
    ]
    assert [reason.value for reason in found] == pytest.approx([-8, 2.5, 0.5])
    assert gadget.reasons(EVE, WORKS_FOR, DAN, 0) == []
    assert gadget_of([]).reasons(EVE, WORKS_FOR, DAN, 0) == []


def test_weights_and_biases_learn_where_there_are_facts_and_statistics_do_not() -> None:
    gadget = gadget_of()
    assert {name for name, _ in gadget.named_parameters()} == {"weight", "bias"}
    gadget.times(*(torch.tensor([number]) for number in (ADA, WORKS_FOR, ROME))).square().sum().backward()
    assert gadget.bias.grad is not None
    assert gadget.weight.grad is not None
    reached = torch.zeros(2, 3, 3, dtype=torch.bool)
    reached[SUBJECT, WORKS_FOR, [BORN_IN, MARRIED_TO]] = True
    reached[OBJECT, WORKS_FOR, BORN_IN] = True
    assert torch.equal(gadget.bias.grad != 0, reached)
    gadget.zero_grad()
    with torch.no_grad():
        gadget.bias[SUBJECT, WORKS_FOR, BORN_IN] = 1  # so that the mean depends on the weights
    gadget.times(*(torch.tensor([number]) for number in (ADA, WORKS_FOR, DAN))).sum().backward()
    reached[OBJECT] = False
    assert torch.equal(gadget.weight.grad.abs() > 1e-5, reached)


def test_the_penalty_keeps_biases_small() -> None:
    assert float(gadget_of().penalty().detach()) == pytest.approx(0.002 * 18 * 0.04)
    assert float(gadget_of(penalty=1.0).penalty().detach()) == pytest.approx(18 * 0.04)


# The synthetic KB

ONCE = ("bornIn", "studiedAt", "wonPrize", "marriedTo", "diedIn")
"""Relations that a person has once at most, so that its one gap is what `SyntheticSpec.gap` states."""
ONE_JOB = SyntheticSpec(jobs=Years(1, (1.0,)))


def assert_lives(facts: int, world: SyntheticSpec, relations: tuple[str, ...], errors: float) -> None:
    """μ and σ of every pair are the world's within 5 %, or within so many standard errors of μ."""
    evidence, numbers = synthetic_evidence(facts, world)
    gadget = Pair(evidence, Pair.options_type())
    for later, earlier in permutations(relations, 2):
        cell = SUBJECT, numbers[later], numbers[earlier]
        stated, cases = world.gap(earlier, later), int(gadget.cases[cell])
        slack = max(0.05 * abs(stated.mean), errors * stated.sd / math.sqrt(cases))
        assert float(gadget.mean[cell]) == pytest.approx(stated.mean, abs=slack), (earlier, later)
        assert float(gadget.sigma[cell]) == pytest.approx(stated.sd, rel=0.05), (earlier, later)


# Not compared: worksFor where a person has several jobs (all of them count here, while the world states the gap to the
# first, and how many there are depends on the length of the life; hence a world with one job each); pairs on the side
# of objects (places, schools, prizes, whose times are those of many persons); pairs of a relation with itself, whose
# mean is 0 by definition. Deaths after the last year are missing, which `World.gap` allows for, so they are compared.


def test_the_gaps_of_synthetic_lives_are_found() -> None:
    assert_lives(100_000, SyntheticSpec(), ONCE, errors=4)
    assert_lives(100_000, ONE_JOB, (*ONCE, "worksFor"), errors=4)


@pytest.mark.slow
def test_the_gaps_of_many_synthetic_lives_are_found_within_five_percent() -> None:
    assert_lives(400_000, SyntheticSpec(), ONCE, errors=0)
    assert_lives(400_000, ONE_JOB, (*ONCE, "worksFor"), errors=0)


def test_what_happens_once_has_no_spread_and_persons_share_no_role_with_games() -> None:
    evidence, numbers = synthetic_evidence(100_000, SyntheticSpec())
    gadget = Pair(evidence, Pair.options_type())
    for name in ONCE:
        cell = SUBJECT, numbers[name], numbers[name]
        assert (float(gadget.mean[cell]), float(gadget.sigma[cell])) == (0, pytest.approx(0.1))
    for personal in (*ONCE, "worksFor"):
        for games in ("heldIn", "wins"):
            assert int(gadget.cases[SUBJECT, numbers[personal], numbers[games]]) == 0
    assert int(gadget.cases[:, numbers["heldIn"], numbers["wins"]].sum()) == 0


@pytest.mark.parametrize("form", ["paper", "published-code"])
def test_a_relation_that_hardly_counts_still_counts_where_it_is_alone(form: str) -> None:
    """Its weight is e⁻³⁰⁰ of the largest, which no float has; but a mean over one fact is that fact."""
    gadget = gadget_of(form=form)
    before = score(gadget, DAN, MARRIED_TO, EVE, 2008)
    with torch.no_grad():
        gadget.weight[SUBJECT, MARRIED_TO, WORKS_FOR] = 300.0
    assert before != 0
    assert score(gadget, DAN, MARRIED_TO, EVE, 2008) == pytest.approx(before)
    assert sum(reason.value for reason in gadget.reasons(DAN, MARRIED_TO, EVE, 2008 - FIRST)) == pytest.approx(before)


@pytest.mark.parametrize("form", ["paper", "published-code"])
def test_many_relations_have_short_tables_and_the_same_scores(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs of relations that no entity has share a weight and a bias; with those alike in the large tables, all is."""
    random = np.random.default_rng(0)
    columns = (random.integers(0, most, 14).tolist() for most in (6, 7, 6, 70))
    rows: list[Row] = [(s, r, o, FIRST + year, FIRST + year) for s, r, o, year in zip(*columns, strict=True)]
    evidence = Evidence.of(facts_of(rows), 6, 7, np.arange(FIRST, 2021))
    options = Pair.options_type(form=form)  # type: ignore[arg-type]
    whole = Pair(evidence, options)
    monkeypatch.setattr(pair, "MOST_RELATIONS", 0)
    short = Pair(evidence, options)
    assert short.weight.shape[1] < 49
    met = whole.cases > 0
    with torch.no_grad():
        short.weight.copy_(torch.randn(short.weight.shape))
        short.bias.copy_(torch.randn(short.bias.shape))
        for name in ("weight", "bias"):
            for side in (SUBJECT, OBJECT):
                table, values = getattr(whole, name)[side], getattr(short, name)[side]
                table.fill_(values[0])
                table[met[side]] = values[1 : 1 + int(met[side].sum())]
    r = torch.arange(7).repeat(6)
    s, o, t = torch.arange(42) % 6, (torch.arange(42) + 2) % 6, torch.arange(42)
    for gadget_answer in (
        lambda gadget: gadget.score_at(s, r, o, t),
        lambda gadget: gadget.objects_at(s, r, t),
        lambda gadget: gadget.subjects_at(r, o, t),
        lambda gadget: gadget.times(s, r, o),
    ):
        torch.testing.assert_close(gadget_answer(short), gadget_answer(whole))
        with torch.no_grad():
            torch.testing.assert_close(gadget_answer(short), gadget_answer(whole))
    short.objects_at(s, r, t).sum().backward()  # type: ignore[no-untyped-call]
    assert short.weight.grad is not None
    assert float(short.weight.grad[OBJECT, 0].abs()) > 0
    assert [each.value for each in short.reasons(0, 0, 1, 3)] == pytest.approx(
        [each.value for each in whole.reasons(0, 0, 1, 3)]
    )


def test_ten_thousand_relations_take_little_memory() -> None:
    count = 10_000
    rows: list[Row] = [(number // 2, number, number // 2 + 1, FIRST, FIRST) for number in range(count)]
    gadget = Pair(Evidence.of(facts_of(rows), count, count, np.arange(FIRST, 2021)), Pair.options_type())
    assert sum(table.numel() for table in gadget.state_dict().values()) < 21 * count


def test_too_many_pairs_of_relations_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "MOST_PAIRS", 50)
    rows: list[Row] = [(0, number, 1, FIRST, FIRST) for number in range(10)]
    with pytest.raises(InputError, match="More than 50 pairs of relations meet in an entity"):
        Pair(Evidence.of(facts_of(rows), 2, 10, np.arange(FIRST, 2021)), Pair.options_type())


def test_small_blocks_give_the_same_meetings(monkeypatch: pytest.MonkeyPatch) -> None:
    learned, _ = synthetic_evidence(2000, SyntheticSpec())
    whole = evidence.meetings(learned.s, learned)
    monkeypatch.setattr(evidence, "BLOCK", 50)
    parts = evidence.meetings(learned.s, learned)
    for name in ("key", "count", "mean", "sigma"):
        assert np.array_equal(getattr(whole, name), getattr(parts, name))
