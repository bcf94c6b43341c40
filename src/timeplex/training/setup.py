"""From a KB and a recipe to what training works on: the timeline, the model's space, placed facts."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from timeplex.errors import InputError
from timeplex.evaluation.link_prediction import LinkPrediction
from timeplex.evaluation.protocol import PUBLISHED_CODE
from timeplex.evaluation.queries import Answers, PlacedFacts, WithGadgets
from timeplex.gadgets import GADGETS, Evidence, Gadget
from timeplex.kb import dates
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import TemporalKB
from timeplex.kb.timeline import Timeline
from timeplex.models.base import Model, Space
from timeplex.models.loading import model_class
from timeplex.training.recipe import Recipe


@dataclass(frozen=True)
class Setup:
    """A KB seen through a recipe."""

    kb: TemporalKB
    recipe: Recipe

    @cached_property
    def timeline(self) -> Timeline:
        """The instants that have embeddings; a KB without any date gets one, so that all models work."""
        timeline = self.kb.timeline(self.recipe.timeline)
        return timeline if len(timeline) else Timeline(np.zeros(1, np.int64), self.kb.granularity, timeline.kind)

    @cached_property
    def train(self) -> PlacedFacts:
        """The training facts on the timeline."""
        return PlacedFacts.of(self.kb.train, self.timeline)

    @cached_property
    def space(self) -> Space:
        """What the model must know of the KB."""
        mentions = np.bincount(np.concatenate([self.train.first, self.train.last]), minlength=len(self.timeline))
        return Space(
            entities=len(self.kb.entities),
            relations=len(self.kb.relations) * (2 if self.recipe.inverse else 1),
            dates=torch.from_numpy(_date_parts(self.timeline)),
            mentions=torch.from_numpy(mentions),
        )

    @cached_property
    def dev_task(self) -> LinkPrediction:
        """Link prediction on valid by the protocol of the published code: what epochs are chosen by."""
        return LinkPrediction(self.kb, self.kb.valid, self.timeline, PUBLISHED_CODE, [PUBLISHED_CODE.filter])

    def scorer(self, model: Model, gadgets: Mapping[str, Gadget] | None = None) -> Answers | WithGadgets:
        """The model, with gadgets if there are any, as the evaluation asks it."""
        answers = Answers(model, self.recipe.inverse)
        return WithGadgets(answers, gadgets) if gadgets else answers

    @cached_property
    def evidence(self) -> Evidence:
        """The training facts as gadgets see them."""
        return Evidence.of(self.kb.train, len(self.kb.entities), len(self.kb.relations), self.timeline.instants)

    def new_gadgets(self) -> dict[str, Gadget]:
        """The recipe's gadgets, with the statistics of the training facts, not trained yet."""
        return {
            name: GADGETS[name](self.evidence, GADGETS[name].options_type(**options))
            for name, options in self.recipe.gadgets.items()
        }

    def new_model(self) -> Model:
        """An untrained model; its first values depend on the recipe's seed alone."""
        self._check_memory()
        torch.manual_seed(self.recipe.seed)
        return self._model()

    def shapes(self) -> dict[str, torch.Tensor]:
        """The tables of the recipe's model without their numbers, for which no memory is taken."""
        try:
            with torch.device("meta"):
                return self._model().state_dict()
        except Exception as error:
            if not model_class(self.recipe.model).__module__.startswith("timeplex."):
                return self._model().state_dict()  # a model of one's own that cannot be had without its numbers
            raise InputError("A model by this recipe would be too large.", "Lower its dimension.") from error

    def _model(self) -> Model:
        model = model_class(self.recipe.model)
        return model(self.space, model.options_type(**self.recipe.options))

    def _check_memory(self) -> None:
        """Refuse embeddings that cannot fit: each number has a gradient and a state of the optimizer beside it."""
        dimension = int(self.recipe.options.get("dimension", 0))
        needed = 3 * 4 * dimension * (self.space.entities + self.space.relations + self.space.instants)
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else needed
        if needed > there:
            raise InputError(
                f"Embeddings of dimension {dimension:,} need at least {needed / 1e9:,.0f} GB of memory to train, "
                f"and there are {there / 1e9:,.0f}.",
                "Choose a smaller options.dimension.",
            )


def _date_parts(timeline: Timeline) -> dates.Ints:
    """(instants, 3): year, month, day; 0 where the granularity has none."""
    instants = timeline.instants
    parts = np.zeros((len(instants), 3), np.int64)
    if timeline.granularity is Granularity.DAY:
        parts[:, 0], parts[:, 1], parts[:, 2] = dates.civil(instants)
    elif timeline.granularity is Granularity.MONTH:
        parts[:, 0], parts[:, 1] = instants // 12, instants % 12 + 1
    else:
        parts[:, 0] = instants
    return parts
