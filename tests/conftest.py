"""Settings for all tests."""

from hypothesis import settings

# First calls import and compile things, and machines are shared: how long an example takes says nothing.
settings.register_profile("timeplex", deadline=None)
settings.load_profile("timeplex")
