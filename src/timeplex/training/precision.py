"""What numbers the large products are made of: float32, or bfloat16 where that is faster.

`auto` decides by what is known before anything is multiplied: the units of the device and the size of the products. So
the same command gives the same tables whatever else the machine has to do, and a small KB, which would gain nothing,
the same on any processor.
"""

import os
from pathlib import Path
from typing import NamedTuple

import torch

from timeplex.errors import InputError
from timeplex.models.base import Model

LARGE = 300_000_000
"""From so many multiply-adds in a product on, bfloat16 is worth it: below, float32 takes a few milliseconds, too."""

SETTING = "TIMEPLEX_BFLOAT16"
"""The environment variable that says whether there are units for bfloat16: 1 or 0, whatever the device says."""

AMPERE = 8
"""The first generation of CUDA devices with units for bfloat16."""


class Units(NamedTuple):
    """Whether a device has fast units for bfloat16, and how that is known."""

    fast: bool
    known: str


class Precision(NamedTuple):
    """The numbers of the products, and why these."""

    dtype: torch.dtype
    reason: str

    @property
    def name(self) -> str:
        """Such as float32."""
        return str(self.dtype).removeprefix("torch.")


def precision(wanted: str, units: Units, multiply_adds: int) -> Precision:
    """What the recipe wants; for `auto`, bfloat16 if there are units for it and the products are large."""
    if wanted != "auto":
        return Precision(dtype(wanted), "the recipe says so")
    if multiply_adds < LARGE:
        size = f"{multiply_adds / 1e6:,.1f} million multiply-adds, below {LARGE // 10**6}"
        return Precision(torch.float32, f"the products are small ({size})")
    return Precision(torch.bfloat16 if units.fast else torch.float32, units.known)


def dtype(name: str) -> torch.dtype:
    """The numbers of that name: float32 or bfloat16."""
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[name]


def multiply_adds(model: Model, rows: int, candidates: int) -> int:
    """How large a product is: so many queries with so many candidates, over the width of an entity's vectors."""
    width: int = sum(getattr(model, name)[0].numel() for name in model.entity_tables)
    return rows * candidates * width


def units(device: torch.device) -> Units:
    """What is known of a device's units for bfloat16, or what the environment says of them."""
    said = os.environ.get(SETTING, "")
    if said not in ("", "0", "1"):
        raise InputError(f"{SETTING} is {said!r}.", "Set it to 1 or 0, or not at all.")
    if said:
        return Units(said == "1", f"{SETTING} is {said}")
    if device.type == "cuda":
        fast = torch.cuda.get_device_capability(device)[0] >= AMPERE
        return Units(fast, f"the GPU has {'' if fast else 'no '}units for bfloat16")
    if device.type == "cpu":
        fast = _avx512_bf16()
        return Units(fast, f"the processor has {'' if fast else 'no '}units for bfloat16 (AVX512-BF16)")
    return Units(False, f"of {device.type} devices it is not known whether bfloat16 is faster")


def _avx512_bf16() -> bool:
    """Whether the processor has AVX512-BF16, by torch if this version of it tells, else by the kernel."""
    told = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    if told is not None:
        return bool(told())
    try:
        return "avx512_bf16" in Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return False
