"""From a KB and a recipe to what training works on: the timeline, the model's space, placed facts, the precision."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from timeplex.errors import InputError
from timeplex.evaluation.metrics import link_metrics
from timeplex.evaluation.protocol import PUBLISHED_CODE
from timeplex.evaluation.ranking import LinkPrediction, PlacedFacts
from timeplex.gadgets import GADGETS, Evidence, Gadget
from timeplex.kb import dates
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import TemporalKB
from timeplex.kb.timeline import Timeline
from timeplex.models.base import Model, Space
from timeplex.models.loading import model_class
from timeplex.models.query_vector import TimeLinearModel
from timeplex.models.scorer import DIRECTIONS, Scorer
from timeplex.training.recipe import Recipe
from timeplex.typing import Ints

MOST_TIME_BYTES = 1_000_000_000
"""The most that one table over the timeline may take: the vectors of all instants, and their scores for a batch."""

MOST_ENTITY_BYTES = 16_000_000_000
"""The most that the vectors of all entities may take; training has four such tables."""


@dataclass(frozen=True)
class Experiment:
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

    def scorer(self, model: Model, gadgets: Mapping[str, Gadget] | None = None) -> Scorer:
        """The model, with gadgets if there are any, as what answers are ranked by."""
        return Scorer(model, self.recipe.inverse, gadgets or {})

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
        self._check_tables()
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

    def _check_tables(self) -> None:
        """Refuse tables that would not fit, before they are made."""
        kind = model_class(self.recipe.model)
        width = 2 * int(self.recipe.options.get("dimension", 0))
        self._check_room("entities", len(self.kb.entities), width, MOST_ENTITY_BYTES)
        if kind.uses_time:
            self._check_room("instants", len(self.timeline), width, MOST_TIME_BYTES)

    def check_batch(self, model: Model) -> None:
        """Refuse a batch whose scores of all instants would not fit, before any is made."""
        if not (model.uses_time and self.recipe.time_weight):
            return
        groups = model.instant_groups()
        cells = len(self.timeline) if groups is None else int(groups[-1]) + 1
        if not isinstance(model, TimeLinearModel):  # each score is made of a vector of its own
            cells *= model.options.dimension
        rows = min(self.recipe.batch_size, len(self.kb.train)) * (2 if self.recipe.inverse else 1)
        if 4 * rows * cells > MOST_TIME_BYTES:
            raise InputError(
                f"The scores of {len(self.timeline):,} instants for a batch of {rows:,} take "
                f"{4e-9 * rows * cells:,.1f} GB, more than the {MOST_TIME_BYTES / 1e9:g} GB that are allowed.",
                "Import with a coarser --granularity, or set time_weight=0 or a smaller batch_size.",
            )

    def _check_room(self, what: str, rows: int, width: int, most: int) -> None:
        """Refuse a table that would take more than so many bytes, before it is made."""
        if 4 * rows * width > most:
            raise InputError(
                f"A table of {rows:,} {what} with {width:,} numbers each takes {4e-9 * rows * width:,.1f} GB, more "
                f"than the {most / 1e9:g} GB that are allowed.",
                "Set a smaller options.dimension"
                + (", timeline=observed, or import with a coarser --granularity." if what == "instants" else "."),
            )


def _date_parts(timeline: Timeline) -> Ints:
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


def dev_metrics(
    setup: Experiment, model: Model, device: torch.device, gadgets: Mapping[str, Gadget] | None = None
) -> dict[str, float]:
    """MRR, MR and HITS@k on valid, mean of both directions, by the protocol of the published code."""
    training = model.training
    model.train(False)
    task, scorer = setup.dev_task, setup.scorer(model, gadgets)
    ranks = [task.ranks(scorer, direction, device)[task.protocol.filter] for direction in DIRECTIONS]
    model.train(training)
    return link_metrics(np.concatenate(ranks))


LARGE = 300_000_000
"""From so many multiply-adds in a product on, bfloat16 is worth it: below, float32 takes a few milliseconds, too."""

SETTING = "TIMEPLEX_BFLOAT16"
"""The environment variable that says whether there are units for bfloat16: 1 or 0, whatever the device says."""

AMPERE = 8
"""The first generation of CUDA devices with units for bfloat16."""


class Units(NamedTuple):
    """Whether a device has fast units for bfloat16, and how that is known."""

    fast: bool
    known: str


class Precision(NamedTuple):
    """The numbers of the products, and why these."""

    dtype: torch.dtype
    reason: str

    @property
    def name(self) -> str:
        """Such as float32."""
        return str(self.dtype).removeprefix("torch.")


def precision(wanted: str, units: Units, multiply_adds: int) -> Precision:
    """What the large products are made of: what the recipe wants; `auto` is bfloat16 where that is faster.

    `auto` decides by what is known before anything is multiplied: the units of the device and the size of the products.
    So the same command gives the same tables whatever else the machine has to do, and a small KB, which would gain
    nothing, the same on any processor.
    """
    if wanted != "auto":
        return Precision(dtype(wanted), "the recipe says so")
    if multiply_adds < LARGE:
        size = f"{multiply_adds / 1e6:,.1f} million multiply-adds, below {LARGE // 10**6}"
        return Precision(torch.float32, f"the products are small ({size})")
    return Precision(torch.bfloat16 if units.fast else torch.float32, units.known)


def dtype(name: str) -> torch.dtype:
    """The numbers of that name: float32 or bfloat16."""
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[name]


def multiply_adds(model: Model, rows: int, candidates: int) -> int:
    """How large a product is: so many queries with so many candidates, over the width of an entity's vectors."""
    width: int = sum(getattr(model, name)[0].numel() for name in model.entity_tables)
    return rows * candidates * width


def units(device: torch.device) -> Units:
    """What is known of a device's units for bfloat16, or what the environment says of them."""
    said = os.environ.get(SETTING, "")
    if said not in ("", "0", "1"):
        raise InputError(f"{SETTING} is {said!r}.", "Set it to 1 or 0, or not at all.")
    if said:
        return Units(said == "1", f"{SETTING} is {said}")
    if device.type == "cuda":
        fast = torch.cuda.get_device_capability(device)[0] >= AMPERE
        return Units(fast, f"the GPU has {'' if fast else 'no '}units for bfloat16")
    if device.type == "cpu":
        fast = _avx512_bf16()
        return Units(fast, f"the processor has {'' if fast else 'no '}units for bfloat16 (AVX512-BF16)")
    return Units(False, f"of {device.type} devices it is not known whether bfloat16 is faster")


def _avx512_bf16() -> bool:
    """Whether the processor has AVX512-BF16, by torch if this version of it tells, else by the kernel."""
    told = getattr(torch.cpu, "_is_avx512_bf16_supported", None)
    if told is not None:
        return bool(told())
    try:
        return "avx512_bf16" in Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return False
