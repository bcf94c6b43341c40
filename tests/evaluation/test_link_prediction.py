"""Link prediction by a protocol: presets, filters in calendar and observed instants, unseen entities."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tests.builders import csv_kb
from torch import Tensor

from timeplex import TemporalKB
from timeplex.errors import InputError
from timeplex.evaluation.protocol import FILTERS, PAPER, PUBLISHED_CODE, Protocol, protocol
from timeplex.evaluation.ranking import LinkPrediction
from timeplex.models.base import Span

ROWS = {
    "train": ["assembly,member,Pierre,2002,2003", "assembly,member,Paul,2003,2008", "assembly,member,Alain,2008,2009"],
    "valid": ["assembly,member,Jean,2000,2003"],
    "test": ["assembly,member,Claude,2000,2003", "assembly,member,Odile,1950,1950"],
}
ORDER = ["Odile", "Pierre", "Paul", "Alain", "Claude", "Jean", "assembly"]


class InOrder:
    """Names entities in a fixed order, and remembers the spans it was asked for."""

    def __init__(self, kb: TemporalKB) -> None:
        self.scores = torch.empty(len(kb.entities))
        for place, name in enumerate(ORDER):
            self.scores[kb.entities.id(name)] = -place
        self.spans: list[tuple[list[int], list[int]]] = []

    def objects(self, s: Tensor, r: Tensor, span: Span) -> Tensor:
        self.spans.append((span[0].tolist(), span[1].tolist()))
        return self.scores.repeat(len(s), 1)

    def subjects(self, r: Tensor, o: Tensor, span: Span) -> Tensor:
        return self.objects(o, r, span)


@pytest.fixture
def kb(tmp_path: Path) -> TemporalKB:
    return csv_kb(tmp_path, ROWS)


def ranks(kb: TemporalKB, by: Protocol) -> dict[str, float]:
    task = LinkPrediction(kb, kb.valid, kb.timeline("calendar"), by, FILTERS)
    return {name: found.item() for name, found in task.ranks(InOrder(kb), "object").items()}


def test_the_papers_example_with_names(tmp_path: Path) -> None:
    """Jean's ranks are 5, 1 and 3.25. Odile would stand above all, but no training fact has her."""
    known = [*ROWS["train"], ROWS["test"][0], "Jean,bornIn,assembly,1940,1940"]
    found = ranks(csv_kb(tmp_path, {"train": known, "valid": ROWS["valid"], "test": ROWS["test"][1:]}), PAPER)
    assert found == {"none": 5.0, "ignore-time": 1.0, "exact-span": 4.0, "per-instant": 3.25}


def test_unseen_golds_count_and_are_last(kb: TemporalKB) -> None:
    """Jean, Claude and Odile are unseen: they share the last places, behind Pierre, Paul, Alain and the assembly."""
    assert ranks(kb, PAPER)["none"] == 1 + 4 + 2 / 2
    assert ranks(kb, PUBLISHED_CODE)["none"] == 1 + 4 + 2
    scored = Protocol("mine", unseen="scored")
    assert ranks(kb, scored)["none"] == 6.0


def test_shares_of_observed_and_of_calendar_instants_differ(kb: TemporalKB) -> None:
    """Of 2000…2003 only 2000, 2002 and 2003 occur: Pierre is known at 2 of 3 of them, Paul at 1 of 3."""
    calendar = Protocol("mine", unseen="scored")
    observed = Protocol("mine", unseen="scored", instants="observed")
    assert ranks(kb, calendar)["per-instant"] == 6 - 2 / 4 - 1 / 4 - 1
    assert ranks(kb, observed)["per-instant"] == pytest.approx(6 - 2 / 3 - 1 / 3 - 1)


def test_a_span_is_scored_whole_or_at_its_begin(kb: TemporalKB) -> None:
    timeline = kb.timeline("calendar")
    for by, last in ((PAPER, 2003), (PUBLISHED_CODE, 2000)):
        scorer = InOrder(kb)
        LinkPrediction(kb, kb.valid, timeline, by, FILTERS).ranks(scorer, "object")
        assert scorer.spans == [([2000 - 1950], [last - 1950])]


def test_presets_say_what_they_are() -> None:
    assert protocol("paper") == PAPER
    assert protocol("published-code", "none").filter == "none"
    assert str(PUBLISHED_CODE) == (
        "published-code: per-instant filter over observed instants, pessimistic ties, "
        "spans scored by their begin, unseen entities ranked last"
    )
    assert PAPER.as_dict() == {
        "name": "paper",
        "filter": "per-instant",
        "ties": "realistic",
        "span_score": "sum",
        "instants": "calendar",
        "unseen": "last",
    }


@pytest.mark.parametrize("arguments", [("papper",), ("paper", "filtered")])
def test_an_unknown_name_tells_the_known_ones(arguments: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=r"Use one of: (paper, published-code|none, ignore-time)"):
        protocol(*arguments)


def test_no_facts_give_no_ranks(kb: TemporalKB) -> None:
    task = LinkPrediction(kb, kb.valid[:0], kb.timeline("calendar"), PAPER, FILTERS)
    assert all(np.array_equal(found, np.empty(0)) for found in task.ranks(InOrder(kb), "subject").values())
