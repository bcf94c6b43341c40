"""How good a model is: ranks under time-aware filters, and the metrics computed from them."""
