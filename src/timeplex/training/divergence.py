"""Training that diverges: it is noticed before a number that is none gets into tables that are kept."""

import math

from torch import Tensor, nn

LARGEST = 1e6
"""No number that is learned may be larger. A score multiplies four of them at most and sums thousands of such products:
with larger ones it would leave the range of float32."""


class Diverged(Exception):  # noqa: N818 - the trainer hears it, and keeps what was good
    """The numbers of a training have grown beyond all bounds; says which."""


def finite_loss(loss: Tensor) -> float:
    """The loss of a batch as a number, if it is one."""
    value = float(loss)
    if not math.isfinite(value):
        raise Diverged("the loss is not finite")
    return value


def check_tables(module: nn.Module, largest: float = LARGEST) -> None:
    """See that all that is learned is finite, and not far larger than anything that one could learn."""
    for name, table in module.named_parameters():
        if not bool((table.detach().abs() <= largest).all()):  # so that nan is refused, too
            raise Diverged(f"numbers of the table {name!r} are above {largest:,.0f} or not finite")
