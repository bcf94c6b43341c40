"""Settings for all tests."""

import os

from hypothesis import settings

# First calls import and compile things, and machines are shared: how long an example takes says nothing. In CI the
# examples are the same each time, so that a change is judged by what it does and not by luck; at home they are new.
settings.register_profile("timeplex", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("timeplex")
