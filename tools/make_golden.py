"""Make tests/golden/FORMAT: folders that every later version must load (tests/test_golden.py).

Run it once when the format of KBs or runs changes; the folders of older formats stay as they are:

    python tools/make_golden.py tests/golden/1
"""

import contextlib
import sys
from pathlib import Path

import numpy as np
import torch

import timeplex
from timeplex.answers.rank import Coexistence, EntityRanker
from timeplex.evaluation.ranking import PlacedFacts
from timeplex.evaluation.time_prediction import fit_durations, probabilities
from timeplex.files import to_json
from timeplex.training.checkpoint import Progress, Stopped
from timeplex.training.loop import Trainer
from timeplex.training.recipe import Recipe

RECIPE = Recipe(
    options={"dimension": 4},
    batch_size=16,
    epochs=3,
    gadgets={"recurrence": {}, "pair": {}},
    precision="float32",
)
TABLE = [
    ("subject", "relation", "object", "begin", "end"),
    *((f"P{n}", "headOf", f"Town {n % 5}", 1950 + 3 * n, 1953 + 3 * n) for n in range(20)),
    *((f"P{n}", "bornIn", f"Town {n % 7}", 1900 + 3 * n, 1900 + 3 * n) for n in range(20)),
    *((f"P{n}", "memberOf", f"Club {n % 3}", 1930 + 3 * n, None) for n in range(20)),
    ("P1", "headOf", "Town 9", "about then", 1990),
]


def main(target: Path) -> None:
    """Write the KB, a finished run, a run that was cut off, and what the finished one answers."""
    header, *rows = TABLE
    kb = timeplex.read([dict(zip(header, row, strict=True)) for row in rows])
    kb = timeplex.split_randomly(kb, valid=0.1, test=0.1, seed=0)
    kb.save(target / "kb")
    Trainer(kb, RECIPE, target / "run").fit()
    begun = Trainer(kb, RECIPE, target / "begun")

    def stop(now: Progress) -> None:
        begun.stop_asked = now.epoch == 2

    with contextlib.suppress(Stopped):
        begun.fit(stop)
    (target / "answers.json").write_text(to_json(answers(target), indent=1) + "\n")


def answers(folder: Path) -> dict[str, object]:
    """What is known of the folders without looking into their files: what the model says stays the same.

    Patterns, which answers count beside it, are learned anew where they are not kept.
    """
    trained, kb = timeplex.load(folder / "run"), timeplex.TemporalKB.load(folder / "kb")
    run, asking = trained.run, trained.asking
    question = asking.questions(relation="headOf", object="Town 3", at="1961")
    who = EntityRanker(run, kb.facts)
    ranked = who.rank(question, 5)
    company = Coexistence(kb.train, len(kb.relations), run.timeline.first, run.timeline.last)
    probability = ranked.raw[0] * company.factor(question, who.known)
    s, r, o = asking.triples("P5", "headOf", "Town 0")
    fact = PlacedFacts(s, r, o, np.zeros(1, np.int64), np.zeros(1, np.int64))
    ((_, likely),) = probabilities(run.scorer, fact, run.timeline, torch.device("cpu"))
    begin, _ = fit_durations(kb.train, relations=len(kb.relations)).spans(likely, r, run.timeline, 1)
    return {
        "kb": kb.digest,
        "problems": len(kb.problems),
        "rank": dict(zip(kb.entities.many(ranked.entity[0]), probability.tolist(), strict=True)),
        "when": [str(begin[0, 0])],
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
