"""Settings for all tests."""

import os

from hypothesis import settings

# First calls import and compile things, and machines are shared: how long an example takes says nothing. In CI the
# examples are the same each time, so that a change is judged by what it does and not by luck; at home they are new.
settings.register_profile("timeplex", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("timeplex")

# Some virtual machines announce AMX and have not got it, so that a product of bfloat16 numbers ends the process
# (timeplex.training.precision). No test needs it. It is read when torch multiplies for the first time.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")
