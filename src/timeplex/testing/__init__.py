"""The laws of models and gadgets, for other people's code."""
