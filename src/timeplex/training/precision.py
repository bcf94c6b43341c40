"""What numbers the large products are made of: float32, or bfloat16 where that works and is faster."""

import subprocess
import sys
import time
from functools import cache

import torch

from timeplex.errors import InputError

TRIAL = "import torch; a = torch.ones(64, 64, dtype=torch.bfloat16); a @ a"


@cache
def bfloat16_works() -> bool:
    """Whether this processor can multiply bfloat16.

    Some virtual machines announce units for it (AMX) that they have not got: then the first product ends the process,
    and no exception tells. So where they are announced, a process of its own tries it, which takes as long as it takes
    to import torch.
    """
    if not torch.cpu._is_amx_tile_supported():
        return True
    trial = subprocess.run([sys.executable, "-c", TRIAL], capture_output=True, check=False)  # noqa: S603 - our own text
    return trial.returncode == 0


def fastest_precision(wanted: str, device: torch.device) -> torch.dtype:
    """float32, or bfloat16 where it is asked for or, with `auto`, found to be clearly faster by a short measurement."""
    if wanted == "float32":
        return torch.float32
    if device.type == "cpu" and not bfloat16_works():
        if wanted == "auto":
            return torch.float32
        raise InputError(
            "This machine announces products of bfloat16 numbers, but cannot make them.",
            "Set precision to float32 or auto.",
        )
    if wanted == "bfloat16":
        return torch.bfloat16
    took = {dtype: _seconds(dtype, device) for dtype in (torch.float32, torch.bfloat16)}
    return torch.bfloat16 if took[torch.bfloat16] < 0.75 * took[torch.float32] else torch.float32


def _seconds(dtype: torch.dtype, device: torch.device) -> float:
    """How long a product takes."""
    a, b = (torch.ones(512, 512, dtype=dtype, device=device) for _ in range(2))
    a @ b
    times = []
    for _ in range(3):
        start = time.perf_counter()
        (a @ b)[0, 0].item()
        times.append(time.perf_counter() - start)
    return min(times)
