"""What a KB adds to a score: the contract every gadget keeps (`base`), the registry, and one file a gadget."""

from timeplex.gadgets import pair, recurrence
from timeplex.gadgets.base import GADGETS, Gadget, GadgetOptions, Reason, register
from timeplex.gadgets.evidence import Evidence

__all__ = ["GADGETS", "Evidence", "Gadget", "GadgetOptions", "Reason", "pair", "recurrence", "register"]
