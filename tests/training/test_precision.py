"""Which numbers the products have: never bfloat16 where it would end the process."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch

from timeplex.errors import InputError
from timeplex.training import precision
from timeplex.training.precision import fastest_precision

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def tried_anew() -> Iterator[None]:
    precision.bfloat16_works.cache_clear()
    yield
    precision.bfloat16_works.cache_clear()


def announce(monkeypatch: pytest.MonkeyPatch, amx: bool, trial: str) -> None:
    """A processor that says of itself whether it has AMX, and what trying it does."""
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(precision, "TRIAL", trial)


DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"


def test_units_that_are_announced_but_absent_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    announce(monkeypatch, amx=True, trial=DIES)
    assert fastest_precision("auto", CPU) == torch.float32
    assert fastest_precision("float32", CPU) == torch.float32
    with pytest.raises(InputError, match="float32 or auto"):
        fastest_precision("bfloat16", CPU)


def test_units_that_work_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    announce(monkeypatch, amx=True, trial="")
    assert fastest_precision("bfloat16", CPU) == torch.bfloat16
    monkeypatch.setattr(precision, "_seconds", lambda dtype, device: 1.0 if dtype == torch.bfloat16 else 2.0)
    assert fastest_precision("auto", CPU) == torch.bfloat16
    monkeypatch.setattr(precision, "_seconds", lambda dtype, device: 1.0)
    assert fastest_precision("auto", CPU) == torch.float32


def test_nothing_is_tried_where_nothing_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    announce(monkeypatch, amx=False, trial=DIES)
    monkeypatch.setattr(subprocess, "run", lambda *arguments, **options: pytest.fail("a process was started"))
    assert fastest_precision("bfloat16", CPU) == torch.bfloat16


def test_the_trial_is_a_product_of_bfloat16_numbers() -> None:
    # The tests' setting keeps off AMX, so that it must go well here.
    found = subprocess.run([sys.executable, "-c", precision.TRIAL], capture_output=True, check=False)
    assert found.returncode == 0, found.stderr


def test_the_measurement_takes_time() -> None:
    assert precision._seconds(torch.float32, CPU) > 0
