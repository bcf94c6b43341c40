"""The laws of models, gadgets and patterns, for other people's code: `check_model`, `check_gadget`, `check_pattern`."""

from timeplex.testing.gadgets import check_gadget
from timeplex.testing.models import Broken, Result, check_model
from timeplex.testing.patterns import check_pattern

__all__ = ["Broken", "Result", "check_gadget", "check_model", "check_pattern"]
