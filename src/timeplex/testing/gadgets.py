"""The laws that every gadget keeps, as functions: the tests run them, and `check_gadget` runs them for anyone.

A law takes a `Case` (a gadget class, a form, a small random KB with all that is awkward, questions about it) and raises
`Broken` with what differs. Scores are compared in double precision, where a wrong formula cannot pass for rounding.
"""

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, get_args

import numpy as np
import polars as pl
import torch
from safetensors.torch import load, save
from torch import Tensor

from timeplex.gadgets import Evidence, Gadget
from timeplex.gadgets.base import Form
from timeplex.kb import spans
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.kb.names import Names
from timeplex.kb.problems import Problems
from timeplex.testing.models import Result, require, result_of
from timeplex.text import Describer

Row = tuple[int, int, int, int, int]

NEAR = tuple(range(1990, 1999))
FAR = (-4000, 9999, -4_000_000, 4_000_000)
"""Years, and days, as far apart as a KB can have them."""
OPEN = (spans.OPEN_BEGIN, spans.OPEN_END)
FORMS = get_args(Form)


@dataclass(frozen=True)
class Sizes:
    """How large a case is."""

    entities: int = 4
    relations: int = 3
    triples: int = 5
    facts: int = 12
    queries: int = 5

    @classmethod
    def drawn(cls, draw: random.Random) -> "Sizes":
        """From next to nothing to as large as a case needs to be."""
        between = draw.randint
        return cls(between(1, 5), between(1, 4), between(1, 6), between(0, 20), between(1, 6))


class Query(NamedTuple):
    """Questions of shape (n,), and the place that each has in the evidence (−1: none)."""

    s: Tensor
    r: Tensor
    o: Tensor
    t: Tensor
    own: Tensor

    def rows(self, rows: Sequence[int]) -> "Query":
        """Some of them, in this order."""
        return Query(*(column[list(rows)] for column in self))

    @property
    def fact(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """s, r, o, t."""
        return self.s, self.r, self.o, self.t


def facts_of(rows: Sequence[Row]) -> Facts:
    """Rows (s, r, o, begin, end) as columns."""
    return Facts(*np.array(rows, np.int64).reshape(-1, 5).T)


def build(
    kind: type[Gadget], rows: Sequence[Row], entities: int, relations: int, instants: Sequence[int], **options: Any
) -> Gadget:
    """A gadget fitted on rows, in double precision, where a wrong formula cannot pass for rounding."""
    evidence = Evidence.of(facts_of(rows), entities, relations, np.array(instants, np.int64))
    return kind(evidence, kind.options_type(**options)).double()


def kb_of(
    rows: Sequence[Row], entities: Sequence[str], relations: Sequence[str], unit: Granularity = Granularity.YEAR
) -> TemporalKB:
    """Rows as the training facts of a KB; names must be in sorted order."""
    s_and_o, r = (Names(pl.Series(list(each), dtype=pl.String)) for each in (entities, relations))
    return TemporalKB(s_and_o, r, unit, {"train": facts_of(rows)}, Problems.none(len(rows)))


class Case:
    """A KB, a gadget with random weights, and questions; all from the sizes and a seed."""

    def __init__(self, kind: type[Gadget], form: str, sizes: Sizes, seed: int) -> None:
        self.kind, self.form, self.sizes, self.seed = kind, form, sizes, seed
        self.random = random.Random(seed)  # noqa: S311 - for examples
        self.entities, self.relations = sizes.entities, sizes.relations
        self.block = self.random.choice((1, 3, 10, 4_000_000))
        # Few times, so that facts meet; now and then one that is very far.
        self.times = self.random.sample(NEAR, self.random.randint(2, 6)) + self.random.sample(FAR, 2)
        self.chances = [4] * (len(self.times) - 2) + self.random.choice(([0, 0], [1, 1]))
        triples = [self._triple() for _ in range(sizes.triples)]
        self.rows = [(*self.random.choice(triples), *self._span()) for _ in range(sizes.facts)]
        if self.rows and self.random.random() < 0.5:
            self.rows.append(self.random.choice(self.rows))  # a duplicate
        self.instants = sorted({*self.random.sample(self.times, len(self.times) - 1), 1989, 2003})
        self.weights_seed, self.spread = self.random.randrange(2**31), self.random.choice((0.1, 1.0, 3.0))
        self.asked = self._questions(triples)

    def __repr__(self) -> str:
        return (
            f"Case(seed={self.seed}, {self.sizes}, block={self.block}, rows={self.rows}, instants={self.instants}, "
            f"queries={[tuple(column.tolist()) for column in self.asked]})"
        )

    def _triple(self) -> tuple[int, int, int]:
        draw = self.random.randrange
        return draw(self.entities), draw(self.relations), draw(self.entities)

    def _span(self) -> tuple[int, int]:
        begin, end = self.random.choices(self.times, self.chances, k=2)
        return self.random.choice(((begin, end), (begin, begin), (begin, OPEN[1]), (OPEN[0], end), OPEN))

    def _questions(self, triples: list[tuple[int, int, int]]) -> Query:
        """About known triples and others, at times of theirs and at others."""
        evidence = Evidence.of(facts_of(self.rows), self.entities, self.relations, np.array(self.instants))
        found = []
        for _ in range(self.sizes.queries):
            triple, own, t = self._triple(), -1, self.random.randrange(len(self.instants))
            if triples and self.random.random() < 0.3:
                triple = self.random.choice(triples)
            elif len(evidence) and self.random.random() < 0.9:
                own = self.random.randrange(len(evidence))
                triple = int(evidence.s[own]), int(evidence.r[own]), int(evidence.o[own])
                if int(evidence.t[own]) in self.instants and self.random.random() < 0.6:
                    t = self.instants.index(int(evidence.t[own]))
            found.append((*triple, t, own))
        return Query(*torch.tensor(found, dtype=torch.long).reshape(-1, 5).T)

    def kb(self) -> TemporalKB:
        """The rows as a KB with names."""
        return kb_of(self.rows, [f"e{n}" for n in range(self.entities)], [f"r{n}" for n in range(self.relations)])

    def gadget(self, rows: Sequence[Row] | None = None, entities: int | None = None) -> Gadget:
        """The gadget with its random weights, on these rows or others."""
        rows = self.rows if rows is None else rows
        gadget = build(self.kind, rows, entities or self.entities, self.relations, self.instants, form=self.form)
        self.shake(gadget, self.weights_seed)
        return gadget

    def shake(self, gadget: Gadget, seed: int) -> None:
        """Change everything that is learned."""
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for parameter in gadget.parameters():
                if parameter.requires_grad:
                    noise = torch.randn(parameter.shape, generator=generator, dtype=torch.double)
                    parameter.add_(self.spread * noise)


Law = Callable[[Case], None]

TOLERANCE = 1e-9


def close(one: Tensor, other: Tensor, what: str) -> None:
    """Require the same numbers up to rounding, relative to the largest score or 1."""
    require(one.shape == other.shape, f"{what}: shape {tuple(one.shape)} instead of {tuple(other.shape)}")
    scale = max(1.0, float(other.detach().abs().max())) if other.numel() else 1.0
    apart = float((one.detach() - other.detach()).abs().max()) if other.numel() else 0.0
    require(apart <= TOLERANCE * scale, f"{what}: differs by {apart:g}")


def same(one: Tensor, other: Tensor, what: str) -> None:
    """Require the same numbers to the last bit."""
    require(torch.equal(one, other), f"{what}: not the same")


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


def agreement(case: Case) -> None:
    """score_at = objects_at[o] = subjects_at[s] = times[t], for every candidate."""
    _agreement(case, None)


def agreement_in_training(case: Case) -> None:
    """The same with `own`: it says which fact does not count, whatever the candidate and the time."""
    _agreement(case, case.asked.own)


def _agreement(case: Case, own: Tensor | None) -> None:
    gadget, (s, r, o, t) = case.gadget(), case.asked.fact
    found = answers(gadget, case.asked, own)
    for entity in range(case.entities):
        all_same = torch.full_like(s, entity)
        close(found["objects_at"][:, entity], gadget.score_at(s, r, all_same, t, own), f"object {entity}")
        close(found["subjects_at"][:, entity], gadget.score_at(all_same, r, o, t, own), f"subject {entity}")
    for instant in range(len(case.instants)):
        score = gadget.score_at(s, r, o, torch.full_like(t, instant), own)
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
                require(not value.any(), f"{name} is not 0 without evidence")
        told = asking.reasons(*(int(column[0]) for column in ask.fact))
        require(not told, f"reasons without evidence: {told}")


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
        told = [reason.fact for reason in added.reasons(s, r, o, t)]
        require(place not in told, "the fact is a reason for itself")


def batches(case: Case) -> None:
    """A row of an answer depends neither on the other rows nor on their order or number."""
    gadget, ask = case.gadget(), case.asked
    count = len(ask.s)
    order = case.random.choices(range(count), k=2 * count) + case.random.sample(range(count), count)
    for own in both_ways(ask):
        together = answers(gadget, ask, own)
        mixed = answers(gadget, ask.rows(order), None if own is None else own[order])
        no_row = answers(gadget, ask.rows([]), None if own is None else own[:0])
        for name, value in together.items():
            close(mixed[name], value[order], f"{name} in another order, with repetitions")
            close(no_row[name], value[:0], f"{name} of no row")
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
                require(bool(value.isfinite().all()), f"{name} is not finite")
            sum(value.sum() for value in found.values()).backward()  # type: ignore[union-attr]
            for name, parameter in gadget.named_parameters():
                finite_ = parameter.grad is None or bool(parameter.grad.isfinite().all())
                require(finite_, f"the gradient of {name} is not finite")


def reasons(case: Case) -> None:
    """They sum to the score, name facts that share with the question what they say, and come strongest first."""
    gadget, ask = case.gadget(), case.asked
    scores = gadget.score_at(*ask.fact).tolist()
    facts = {row: (s, r, o, begin if begin != OPEN[0] else end) for row, (s, r, o, begin, end) in enumerate(case.rows)}
    for score, s, r, o, t in zip(scores, *(column.tolist() for column in ask.fact), strict=True):
        found = gadget.reasons(s, r, o, t)
        total = sum(reason.value for reason in found)
        largest = max([1.0, *(abs(reason.value) for reason in found)])
        require(abs(total - score) <= TOLERANCE * largest, f"reasons sum to {total}, the score is {score}")
        sizes = [abs(reason.value) for reason in found]
        require(sizes == sorted(sizes, reverse=True), "the strongest reasons do not come first")
        require(len({(why.fact, why.side) for why in found}) == len(found), "a fact is a reason twice")
        for reason in found:
            fact_s, fact_r, fact_o, when = facts[reason.fact]
            shared = (reason.side == "object" or fact_s == s) and (reason.side == "subject" or fact_o == o)
            require(shared, f"{reason} does not share its {reason.side} with the question")
            require(reason.gap == case.instants[t] - when, f"the gap of {reason}")
            itself_ = (fact_s, fact_r, fact_o, when) == (s, r, o, case.instants[t])
            require(not itself_, "the fact is a reason for itself")
        require(bool(found) or score == 0, f"the score is {score} without a reason")


def sentences(case: Case) -> None:
    """Each reason is one line: its fact, then what it means; a gadget of one's own says something, too."""
    gadget, ask, words = case.gadget(), case.asked, Describer(case.kb(), case.kb().train)
    for s, r, o, t in zip(*(column.tolist() for column in ask.fact), strict=True):
        for reason in gadget.reasons(s, r, o, t):
            for said in (gadget.sentence(reason, r, words), Gadget.sentence(gadget, reason, r, words)):
                fact = words.dated(reason.fact)
                require(said.startswith(fact) and len(said) > len(fact), f"{said!r} does not begin with its fact")
                require("\n" not in said and not said.endswith(".") and "nan" not in said, f"the sentence {said!r}")


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
        require(gadget.reasons(*(int(column[0]) for column in ask.fact)) == told, "other reasons at a second time")
    require(list(gadget.state_dict()) == list(state), "evaluating changes the names of tables")
    for name, value in gadget.state_dict().items():
        same(value, state[name], name)
    for name, before in evidence.items():
        require(np.array_equal(getattr(gadget.evidence, name), before), f"evaluating changes the evidence, {name}")
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
                (value * factor).sum().backward()  # type: ignore[no-untyped-call]
            each = [torch.zeros_like(one) if one.grad is None else one.grad.clone() for one in learned]
            found[name] = torch.cat([gradient.flatten() for gradient in each])
            close(found[name], found["score_at"], f"the gradient of {name}")
        # Along a random direction, the score rises as the gradient says.
        direction = torch.randn(len(found["score_at"]), generator=generator, dtype=torch.double)
        start = torch.nn.utils.parameters_to_vector(learned).detach().clone()
        ends, totals = [start + sign * step * direction for sign in (1, -1)], []
        with torch.no_grad():
            for end in ends:
                torch.nn.utils.vector_to_parameters(end, learned)
                totals.append((gadget.score_at(*ask.fact, own) * factor).sum())
            torch.nn.utils.vector_to_parameters(start, learned)
        # The step as it was rounded: that of a mean of four million years has three digits.
        slope, expected = (totals[0] - totals[1]) / (2 * step), found["score_at"] @ (ends[0] - ends[1]) / (2 * step)
        scale = 1 + float(found["score_at"].abs().max()) if len(start) else 1.0
        require(abs(float(slope - expected)) < 1e-4 * scale, f"the slope is {slope}, the gradient says {expected}")


def saving(case: Case) -> None:
    """A new gadget with the saved tables of another gives bit by bit its scores."""
    gadget, ask = case.gadget().float(), case.asked
    other = case.gadget().float()
    case.shake(other.double(), case.seed + 1)
    other.float()
    stored = save({name: tensor.contiguous() for name, tensor in gadget.state_dict().items()})
    other.load_state_dict(load(stored))
    require({name for name, _ in gadget.named_parameters()} <= set(load(stored)), "a parameter is not saved")
    for name, value in answers(gadget, ask, None).items():
        same(value, answers(other, ask, None)[name], name)


LAWS: dict[str, Law] = {
    law.__name__.replace("_", " "): law
    for law in (
        *(agreement, agreement_in_training, adding, no_evidence, itself, batches, finite),
        *(reasons, sentences, repetition, gradients, saving),
    )
}


def check_gadget(gadget: type[Gadget], examples: int = 25, seed: int = 0) -> list[Result]:
    """Try every law on random examples, in both forms; a result a law, with what was wrong if it was broken.

    >>> from timeplex.gadgets import GADGETS
    >>> all(result.passed for result in check_gadget(GADGETS["recurrence"], examples=4))
    True
    """
    draw = random.Random(seed)  # noqa: S311 - for examples
    cases = [Case(gadget, FORMS[number % len(FORMS)], Sizes.drawn(draw), seed + number) for number in range(examples)]
    return [result_of(name, law, cases) for name, law in LAWS.items()]
