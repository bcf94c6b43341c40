"""How a model learns: the recipe, batches, losses, regularisers, the loop, checkpoints and traces."""
