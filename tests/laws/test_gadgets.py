"""Every registered gadget keeps every law, in both forms, on small KBs with all that is awkward."""

import copy
import runpy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, note, settings
from hypothesis import strategies as st
from safetensors.torch import load, save
from tests.builders import facts_of
from tests.gadgets import oracle
from tests.gadgets.cases import OPEN, Case, Query, Sizes
from torch import Tensor

from timeplex.gadgets import GADGETS, Gadget
from timeplex.gadgets import pair as pair_module
from timeplex.gadgets.words import Describer

FORMS = ("paper", "published-code")
QUICK, SLOW = 24, 200
"""Examples a law, shared among gadgets and forms."""
TOLERANCE = 1e-9

SIZES = st.builds(
    Sizes,
    entities=st.integers(1, 5),
    relations=st.integers(1, 4),
    triples=st.integers(1, 6),
    facts=st.integers(0, 20),
    queries=st.integers(1, 6),
)

Law = Callable[[Case], None]


pytestmark = pytest.mark.usefixtures("one_thread")


def close(one: Tensor, other: Tensor, what: str) -> None:
    """The same up to rounding, relative to the largest score or 1."""
    assert one.shape == other.shape, what
    scale = max(1.0, float(other.detach().abs().max())) if other.numel() else 1.0
    torch.testing.assert_close(one, other, rtol=0, atol=TOLERANCE * scale, msg=lambda message: f"{what}: {message}")


def same(one: Tensor, other: Tensor, what: str) -> None:
    assert torch.equal(one, other), what


def answers(gadget: Gadget, ask: Query, own: Tensor | None) -> dict[str, Tensor]:
    """The four ways to ask."""
    s, r, o, t = ask.fact
    return {
        "score_at": gadget.score_at(s, r, o, t, own),
        "objects_at": gadget.objects_at(s, r, t, own),
        "subjects_at": gadget.subjects_at(r, o, t, own),
        "times": gadget.times(s, r, o, own),
    }


def asked_for(found: dict[str, Tensor], ask: Query) -> dict[str, Tensor]:
    """What each of the four says of the very fact that is asked for."""
    row = torch.arange(len(ask.s))
    where = {"objects_at": ask.o, "subjects_at": ask.s, "times": ask.t}
    return {name: value if name == "score_at" else value[row, where[name]] for name, value in found.items()}


def both_ways(ask: Query) -> list[Tensor | None]:
    """Without `own`, and with it."""
    return [None, ask.own]


# The laws


def agreement(case: Case) -> None:
    """score_at = objects_at[o] = subjects_at[s] = times[t], for every candidate."""
    gadget, ask = case.gadget(), case.asked
    s, r, o, t = ask.fact
    found = answers(gadget, ask, None)
    for entity in range(case.entities):
        all_same = torch.full_like(s, entity)
        close(found["objects_at"][:, entity], gadget.score_at(s, r, all_same, t), f"object {entity}")
        close(found["subjects_at"][:, entity], gadget.score_at(all_same, r, o, t), f"subject {entity}")
    for instant in range(len(case.instants)):
        score = gadget.score_at(s, r, o, torch.full_like(t, instant))
        close(found["times"][:, instant], score, f"instant {instant}")


def agreement_in_training(case: Case) -> None:
    """The same with `own`: it says which fact does not count, whatever the candidate and the time."""
    gadget, ask = case.gadget(), case.asked
    s, r, o, t = ask.fact
    found = answers(gadget, ask, ask.own)
    for entity in range(case.entities):
        all_same = torch.full_like(s, entity)
        close(found["objects_at"][:, entity], gadget.score_at(s, r, all_same, t, ask.own), f"object {entity}")
        close(found["subjects_at"][:, entity], gadget.score_at(all_same, r, o, t, ask.own), f"subject {entity}")
    for instant in range(len(case.instants)):
        score = gadget.score_at(s, r, o, torch.full_like(t, instant), ask.own)
        close(found["times"][:, instant], score, f"instant {instant}")


def adding(case: Case) -> None:
    """add_to adds strength · score to rows, up to what a row has alike; without gradients scores are the same."""
    gadget, ask = case.gadget(), case.asked
    s, r, o, t = ask.fact
    expected = answers(gadget, ask, None)
    with torch.no_grad():
        for name, value in answers(gadget, ask, None).items():
            close(value, expected[name].detach(), name)
        for direction, given, rows in (("object", s, expected["objects_at"]), ("subject", o, expected["subjects_at"])):
            start = torch.rand(rows.shape, dtype=rows.dtype)
            there = start.clone()
            added = gadget.add_to(there, direction, given, r, t)  # type: ignore[arg-type]
            same(added, there, "in place")
            apart = added - start - gadget.strength * rows
            close(apart, apart[:, :1].expand_as(apart), direction)


def no_evidence(case: Case) -> None:
    """Exactly 0 for entities of which nothing is known, and for everything if there is no fact with a date."""
    gadget = case.gadget(entities=case.entities + 2)
    strangers = case.asked._replace(
        s=torch.full_like(case.asked.s, case.entities),
        o=torch.full_like(case.asked.o, case.entities + 1),
        own=torch.full_like(case.asked.own, -1),
    )
    undated = case.gadget([(0, 0, 0, *OPEN)] * 2)
    for asking, ask in ((gadget, strangers), (case.gadget([]), case.asked), (undated, case.asked)):
        for own in (None, torch.full_like(ask.own, -1)):
            found = answers(asking, ask, own)
            found = asked_for(found, ask) | {"times": found["times"]} if asking is gadget else found
            for name, value in found.items():
                assert not value.any(), name
        assert asking.reasons(*(int(column[0]) for column in ask.fact)) == []


def itself(case: Case) -> None:
    """The fact that is asked for, added to the training facts, does not change its own score.

    Statistics and weights stay as they are. Without `own` this holds at the fact's time, with `own` at every time.
    """
    without = case.gadget()
    for row in range(len(case.asked.s)):
        ask = case.asked.rows([row])
        s, r, o, t = (int(column) for column in ask.fact)
        when = case.instants[t]
        place = case.random.randint(0, len(case.rows))
        rows = [*case.rows[:place], (s, r, o, when, when + 3), *case.rows[place:]]
        added = case.gadget(rows)
        added.load_state_dict(without.state_dict())
        before, after = (asked_for(answers(gadget, ask, None), ask) for gadget in (without, added))
        for name, value in before.items():
            close(after[name], value, f"{name} without own")
        none, own = (torch.tensor([number]) for number in (-1, int(added.evidence.places(np.array([place]))[0])))
        ask = ask._replace(t=torch.tensor([case.random.randrange(len(case.instants))]))
        before, after = answers(without, ask, none), answers(added, ask, own)
        close(after["times"], before["times"], "times with own")
        for name, value in asked_for(before, ask).items():
            close(asked_for(after, ask)[name], value, f"{name} with own")
        assert place not in [reason.fact for reason in added.reasons(s, r, o, t)]


def batches(case: Case) -> None:
    """A row of an answer depends neither on the other rows nor on their order or number."""
    gadget, ask = case.gadget(), case.asked
    count = len(ask.s)
    order = case.random.choices(range(count), k=2 * count) + case.random.sample(range(count), count)
    for own in both_ways(ask):
        together = answers(gadget, ask, own)
        mixed = answers(gadget, ask.rows(order), None if own is None else own[order])
        nobody = answers(gadget, ask.rows([]), None if own is None else own[:0])
        for name, value in together.items():
            close(mixed[name], value[order], f"{name} in another order, with repetitions")
            assert nobody[name].shape == (0, *value.shape[1:])
        for row in range(count):
            alone = answers(gadget, ask.rows([row]), None if own is None else own[[row]])
            for name, value in alone.items():
                close(value, together[name][[row]], f"{name} of a row alone")


def finite(case: Case) -> None:
    """Scores and gradients are finite, whatever the gap."""
    gadget, ask = case.gadget(), case.asked
    for parameters in (gadget.double, gadget.float):
        parameters()
        for own in both_ways(ask):
            gadget.zero_grad()
            found = answers(gadget, ask, own)
            for name, value in found.items():
                assert value.isfinite().all(), name
            sum(value.sum() for value in found.values()).backward()  # type: ignore[union-attr]
            for name, parameter in gadget.named_parameters():
                assert parameter.grad is None or parameter.grad.isfinite().all(), name


def reasons(case: Case) -> None:
    """They sum to the score, name facts that share with the question what they say, and come strongest first."""
    gadget, ask = case.gadget(), case.asked
    scores = gadget.score_at(*ask.fact).tolist()
    facts = {fact.row: fact for fact in oracle.dated(facts_of(case.rows))}
    for score, s, r, o, t in zip(scores, *(column.tolist() for column in ask.fact), strict=True):
        found = gadget.reasons(s, r, o, t)
        total = sum(reason.value for reason in found)
        assert abs(total - score) <= TOLERANCE * max([1.0, *(abs(reason.value) for reason in found)])
        sizes = [abs(reason.value) for reason in found]
        assert sizes == sorted(sizes, reverse=True)
        assert len({(reason.fact, reason.side) for reason in found}) == len(found)
        for reason in found:
            fact = facts[reason.fact]
            assert reason.side == "object" or fact.s == s
            assert reason.side == "subject" or fact.o == o
            assert reason.gap == case.instants[t] - fact.t
            assert (fact.s, fact.r, fact.o, fact.t) != (s, r, o, case.instants[t])
        assert bool(found) or score == 0


def sentences(case: Case) -> None:
    """Each reason is one line: its fact, then what it means; a gadget of one's own says something, too."""
    gadget, ask, words = case.gadget(), case.asked, Describer(case.kb())
    for s, r, o, t in zip(*(column.tolist() for column in ask.fact), strict=True):
        for reason in gadget.reasons(s, r, o, t):
            for said in (gadget.sentence(reason, r, words), Gadget.sentence(gadget, reason, r, words)):
                assert said.startswith(words.fact(reason.fact))
                assert len(said) > len(words.fact(reason.fact))
                assert "\n" not in said
                assert not said.endswith(".")
                assert "nan" not in said


def repetition(case: Case) -> None:
    """Evaluating twice gives the same numbers, and changes no parameter, no evidence and no argument."""
    gadget, ask = case.gadget(), case.asked
    columns = ("s", "r", "o", "t", "rows", "instants")
    state, arguments = copy.deepcopy(gadget.state_dict()), [column.clone() for column in ask]
    evidence = {name: getattr(gadget.evidence, name).copy() for name in columns}
    for own in both_ways(ask):
        first = answers(gadget, ask, own)
        told = gadget.reasons(*(int(column[0]) for column in ask.fact))
        second = answers(gadget, ask, own)
        for name, value in first.items():
            same(value, second[name], name)
        assert gadget.reasons(*(int(column[0]) for column in ask.fact)) == told
    assert list(gadget.state_dict()) == list(state)
    for name, value in gadget.state_dict().items():
        same(value, state[name], name)
    for name, before in evidence.items():
        assert np.array_equal(getattr(gadget.evidence, name), before), name
    for column, argument in zip(ask, arguments, strict=True):
        same(column, argument, "an argument")


def gradients(case: Case) -> None:
    """All four ways to ask have one gradient, and it is the slope of the score."""
    gadget, ask = case.gadget(), case.asked
    learned = [parameter for parameter in gadget.parameters() if parameter.requires_grad]
    generator = torch.Generator().manual_seed(case.seed)
    factor = torch.rand(len(ask.s), generator=generator, dtype=torch.double) + 0.5
    step = 1e-6
    for own in both_ways(ask):
        found = {}
        for name, value in asked_for(answers(gadget, ask, own), ask).items():
            gadget.zero_grad()
            if value.requires_grad:
                (value * factor).sum().backward()
            each = [torch.zeros_like(one) if one.grad is None else one.grad.clone() for one in learned]
            found[name] = torch.cat([gradient.flatten() for gradient in each])
            close(found[name], found["score_at"], f"the gradient of {name}")
        # Along a random direction, the score rises as the gradient says.
        direction = torch.randn(len(found["score_at"]), generator=generator, dtype=torch.double)
        start = torch.nn.utils.parameters_to_vector(learned).detach().clone()
        totals = []
        with torch.no_grad():
            for sign in (1, -1):
                torch.nn.utils.vector_to_parameters(start + sign * step * direction, learned)
                totals.append((gadget.score_at(*ask.fact, own) * factor).sum())
            torch.nn.utils.vector_to_parameters(start, learned)
        slope, expected = (totals[0] - totals[1]) / (2 * step), found["score_at"] @ direction
        scale = 1 + float(found["score_at"].abs().max()) if len(start) else 1.0
        assert abs(float(slope - expected)) < 1e-4 * scale


def saving(case: Case) -> None:
    """A new gadget with the saved tables of another gives bit by bit its scores."""
    gadget, ask = case.gadget().float(), case.asked
    other = case.gadget().float()
    case.shake(other.double(), case.seed + 1)
    other.float()
    stored = save({name: tensor.contiguous() for name, tensor in gadget.state_dict().items()})
    other.load_state_dict(load(stored))
    assert {name for name, _ in gadget.named_parameters()} <= set(load(stored))
    for name, value in answers(gadget, ask, None).items():
        same(value, answers(other, ask, None)[name], name)


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


LAWS: list[Law] = [
    *(agreement, agreement_in_training, adding, no_evidence, itself, batches, finite),
    *(reasons, sentences, repetition, gradients, saving, formula),
]


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
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_every_gadget_keeps_every_law(law: Law, name: str, form: str) -> None:
    keeps(law, name, form, QUICK)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", GADGETS)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_every_gadget_keeps_every_law_on_many_kbs(law: Law, name: str, form: str) -> None:
    keeps(law, name, form, SLOW)


def test_the_gadgets_of_the_paper_are_there() -> None:
    assert set(oracle.ORACLES) <= set(GADGETS)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_the_example_keeps_every_law(law: Law) -> None:
    """The gadget that docs/extending.md shows."""
    before = dict(GADGETS)
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "my_gadget.py"))
    try:
        keeps(law, "demand", "paper", QUICK)
    finally:
        GADGETS.clear()
        GADGETS.update(before)
