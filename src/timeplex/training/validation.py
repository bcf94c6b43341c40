"""How a model does on dev while it trains."""

from collections.abc import Mapping

import numpy as np
import torch

from timeplex.evaluation.metrics import link_metrics
from timeplex.evaluation.queries import DIRECTIONS
from timeplex.gadgets import Gadget
from timeplex.models.base import Model
from timeplex.training.setup import Setup


def dev_metrics(
    setup: Setup, model: Model, device: torch.device, gadgets: Mapping[str, Gadget] | None = None
) -> dict[str, float]:
    """MRR, MR and HITS@k on valid, mean of both directions, by the protocol of the published code."""
    training = model.training
    model.train(False)
    task, scorer = setup.dev_task, setup.scorer(model, gadgets)
    ranks = [task.ranks(scorer, direction, device)[task.protocol.filter] for direction in DIRECTIONS]
    model.train(training)
    return link_metrics(np.concatenate(ranks))
