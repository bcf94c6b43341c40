"""The registry of gadgets and their common settings."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from timeplex.gadgets import GADGETS, Gadget, GadgetOptions, register
from timeplex.gadgets.recurrence import Recurrence
from timeplex.testing.gadgets import build


def test_a_name_belongs_to_one_gadget() -> None:
    class Stranger(Recurrence):
        pass

    with pytest.raises(ValueError, match=r"the name 'recurrence' belongs to timeplex\.gadgets\.recurrence"):
        register("recurrence")(Stranger)
    assert GADGETS["recurrence"] is Recurrence
    assert GADGETS["recurrence"].name == "recurrence"


@pytest.mark.parametrize("kind", GADGETS.values(), ids=list(GADGETS))
def test_settings_of_every_gadget(kind: type[Gadget]) -> None:
    assert issubclass(kind.options_type, GadgetOptions)
    assert kind.options_type().form == "paper"
    with pytest.raises(ValidationError):
        kind.options_type(weigth=2)  # type: ignore[call-arg]
    with pytest.raises(ValidationError):
        kind.options_type(form="other")  # type: ignore[arg-type]
    gadget = build(kind, [(0, 0, 1, 1990, 1991)], 2, 1, [1990], weight=3.5)
    assert float(gadget.strength) == 3.5


@pytest.mark.parametrize("kind", GADGETS.values(), ids=list(GADGETS))
def test_the_weight_of_a_gadget_is_no_part_of_its_scores(kind: type[Gadget]) -> None:
    rows = [(0, 0, 1, 1990, 1990), (0, 0, 1, 1994, 1994), (0, 1, 1, 1992, 1992)]
    ask = [torch.tensor([number]) for number in (0, 0, 1, 0)]
    scores = [build(kind, rows, 2, 2, np.arange(1990, 1999).tolist(), weight=w).score_at(*ask) for w in (1.0, 5.0)]
    assert scores[0] != 0
    assert scores[0] == scores[1]
