"""Reading learned tables (safetensors), which may come from anyone: just the expected ones, finite, of their shapes."""

from collections.abc import Mapping

import torch
from safetensors.torch import load
from torch import Tensor, nn

from timeplex.errors import DamagedError

LARGEST = 1e9
"""No learned number is larger; products of three of them, summed over an embedding and a span, are still finite."""

TOLERANCE = 1e-3
"""So much may statistics differ that two machines have computed from the same facts."""

AGAIN = "Train it again, or get the folder anew."


def unpack(content: bytes, expected: Mapping[str, Tensor], source: object) -> dict[str, Tensor]:
    """The tables in the content of a file, by name, if they are like the expected ones (which may be on `meta`)."""
    if nbytes(expected) > len(content):
        raise DamagedError(f"{source} holds a model of another shape.", AGAIN)
    tables = decoded(content, source)
    if set(tables) != set(expected):
        raise DamagedError(f"{source} holds the tables of another model.", AGAIN)
    for name, table in tables.items():
        check(table, expected[name], name, source)
    return tables


def decoded(content: bytes, source: object) -> dict[str, Tensor]:
    """All tables of a file; their sizes are bounded by that of the file."""
    try:
        return load(content)
    except Exception as error:  # whatever the library raises
        raise DamagedError(f"{source} is not a readable safetensors file.", AGAIN) from error


def check(table: Tensor, expected: Tensor, name: str, source: object, largest: float = LARGEST) -> None:
    """Refuse a table of another shape or type than expected, and numbers that no training leaves."""
    if table.shape != expected.shape or table.dtype != expected.dtype:
        raise DamagedError(f"{source} holds a model of another shape: {name[:60]} is {tuple(table.shape)}.", AGAIN)
    if table.is_floating_point() and not bool((table.abs() <= largest).all()):
        raise DamagedError(f"{source} holds numbers that are not finite or far too large, in {name[:60]}.", AGAIN)


def check_statistics(module: nn.Module, tables: Mapping[str, Tensor], source: object) -> None:
    """Refuse a file whose statistics are not those that a new module has computed from the facts."""
    for name, fresh in module.named_buffers():
        if name.endswith("strength") or name not in tables:
            continue  # a weight that was chosen on dev
        stored = tables[name]
        if not torch.allclose(stored.double(), fresh.double(), rtol=TOLERANCE, atol=TOLERANCE):
            raise DamagedError(f"{source} holds statistics of other facts than those of the run's KB.", AGAIN)
        if fresh.is_floating_point() and not torch.equal(stored.sign(), fresh.sign()):
            raise DamagedError(f"{source} holds statistics of other facts than those of the run's KB.", AGAIN)


def nbytes(tables: Mapping[str, Tensor]) -> int:
    """How many bytes tables take."""
    return sum(table.numel() * table.element_size() for table in tables.values())
