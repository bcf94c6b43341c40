"""Types that many modules share."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
"""Numbers of entities, relations or instants, as a column keeps them."""
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Features = NDArray[np.float32]
"""What patterns say, as rows of numbers that a learner weighs."""

Progress = Callable[[int, int | None], None]
"""Called as work goes on: how much is done, of how much (None if that is not known)."""
