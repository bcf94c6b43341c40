"""TimePlex with both gadgets against its base model: evaluation of YAGO11k's test set, and phase 2 against phase 1.

    python benchmarks/gadgets.py [--rounds 5] [--json]

`evaluation_over_base`: both directions, all filters (made once), by the protocol of the published code; untrained
tables, which does not change the time. `times_over_base`: the probabilities of all instants for the facts with both
ends. `phase2_over_phase1`: the seconds of phase 2 by the recipe, against those of as many epochs of phase 1 as the
recorded run of the base model needed; of both a few batches are timed.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch

from timeplex.datasets import benchmarks
from timeplex.evaluation.protocol import FILTERS, PUBLISHED_CODE
from timeplex.evaluation.ranking import LinkPrediction, PlacedFacts
from timeplex.evaluation.time_prediction import both_ends_known
from timeplex.models.scorer import DIRECTIONS
from timeplex.training import recipe as recipes
from timeplex.training.batches import random
from timeplex.training.gadget_training import GadgetTrainer
from timeplex.training.loop import Trainer
from timeplex.training.objective import Objective

sys.path.insert(0, str(Path(__file__).parent))
from common import arguments, peak_rss_mb, show, side_by_side

RECORD = Path(__file__).parents[1] / "results" / "yago11k" / "timeplex-base.json"
BATCHES = 4


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    kb, recipe = benchmarks.load("yago11k"), recipes.read("yago11k/timeplex")
    trainer = Trainer(kb, recipe)
    epochs = json.loads(RECORD.read_text())["by_seed"]["0"]["epochs"]
    setup, model, gadgets = trainer.setup, trainer.model.train(False), trainer.setup.new_gadgets()
    task = LinkPrediction(kb, kb.test, setup.timeline, PUBLISHED_CODE, FILTERS)
    s, r, o, _ = PlacedFacts.of(both_ends_known(kb.test), setup.timeline).tensors(torch.device("cpu"))
    scorers = [setup.scorer(model, each) for each in (None, gadgets)]

    def links(scorer):  # type: ignore[no-untyped-def]
        return lambda: [task.ranks(scorer, direction) for direction in DIRECTIONS]

    def times(scorer):  # type: ignore[no-untyped-def]
        return torch.no_grad()(lambda: scorer.times(s, r, o))

    base, whole = side_by_side(*map(links, scorers), rounds=options.rounds)
    base_times, whole_times = side_by_side(*map(times, scorers), rounds=options.rounds)

    second = GadgetTrainer(setup, model, torch.device("cpu"))
    groups = [gadgets] if recipe.phase2.together else [{name: gadget} for name, gadget in gadgets.items()]
    batches = -(-len(kb.train) // recipe.phase2.batch_size)

    objective = Objective(model, recipe, len(kb.relations), trainer.precision.dtype)

    def phase1() -> None:
        for number in range(BATCHES):
            negatives = trainer.negatives.draw(random(recipe.seed, number), trainer.device)
            objective(trainer.batches.batch(0, number, trainer.device), negatives).backward()
        model.zero_grad(set_to_none=True)

    def phase2() -> None:
        for group in groups:
            for number in range(BATCHES):
                rows = np.arange(number * recipe.phase2.batch_size, (number + 1) * recipe.phase2.batch_size)
                second.loss(group, rows, (0, number)).backward()  # type: ignore[no-untyped-call]

    one, two = side_by_side(phase1, phase2, rounds=options.rounds)
    first_seconds = epochs * (one * len(trainer.batches) / BATCHES + base)  # an epoch ends with a look at dev
    second_seconds = recipe.phase2.epochs * (two * batches / BATCHES + len(groups) * whole)
    show(
        {
            "threads": options.threads,
            "base_seconds": base,
            "with_gadgets_seconds": whole,
            "evaluation_over_base": whole / base,
            "times_over_base": whole_times / base_times,
            "phase1_epochs": epochs,
            "phase1_seconds": first_seconds,
            "phase2_seconds": second_seconds,
            "phase2_over_phase1": second_seconds / first_seconds,
            "peak_rss_mb": peak_rss_mb(),
        },
        options.json,
    )


if __name__ == "__main__":
    main()
