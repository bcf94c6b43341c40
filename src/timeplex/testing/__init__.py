"""The laws of models and gadgets, for other people's code: `check_model`, `check_gadget`."""

from timeplex.testing.gadgets import check_gadget
from timeplex.testing.models import Broken, Result, check_model

__all__ = ["Broken", "Result", "check_gadget", "check_model"]
