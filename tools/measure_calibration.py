"""How far the probabilities of trained runs can be believed: writes results/calibration.json.

    python tools/measure_calibration.py RUN… [-o results/calibration.json]

For each run (its KB's name is the key) and question: the expected calibration error before and after calibration, on
dev (each case by maps fitted on the other folds) and on test (by the maps that users get, fitted on dev), with a
table of reliability in ten bins of equal size. The questions are

    rank@1               the first new answer is right: what train (for test: train and valid) states for the time is
                         known and left out, and right is what dev (test) states for the time; both directions
    top 10               the same for all ten answers
    span overlaps gold   the most likely span shares an instant with the true one; facts with both ends known
    interval             the 80 % interval holds the true begin; facts with a begin
    proposals            what `discover` proposes is stated by dev (test), if train (for test: train and valid) is known

Test facts have no part in fitting. Nothing is random but the folds and the draw of at most 5,000 dev facts (seed 0).
"""

import argparse
import json
import sys
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import timeplex
from timeplex.answers import discover
from timeplex.answers.calibration import fit, who_cases
from timeplex.answers.calibration_maps import BINS, calibration_error, reliability
from timeplex.answers.rank import EntityRanker
from timeplex.answers.trained import Trained
from timeplex.evaluation.time_prediction import both_ends_known
from timeplex.kb import spans
from timeplex.kb.facts import Facts
from timeplex.training.run import machine
from timeplex.typing import Floats, Ints

ROOT = Path(__file__).parents[1]
FIRST = (50, 200, 500)
"""So many of the likeliest proposals are looked at apart."""


def main() -> None:
    """Measure the runs that are named, and keep what is recorded of others."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", metavar="RUN", type=Path)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "results" / "calibration.json")
    options = parser.parse_args()
    recorded = json.loads(options.output.read_text()) if options.output.exists() else {}
    for run in options.runs:
        trained = timeplex.load(run)
        recorded[trained.kb.name] = {
            "run": str(run),
            "model": trained.run.recipe.title,
            "command": "python tools/measure_calibration.py " + " ".join(sys.argv[1:]),
            "date": date.today().isoformat(),
            "seed": trained.run.recipe.seed,
            "bins": f"{BINS} of equal size",
            "machine": machine(),
            **measured(trained),
        }
        options.output.write_text(json.dumps(recorded, indent=1) + "\n")
        print(trained.kb.name, json.dumps(summary(recorded[trained.kb.name]), indent=1))


def measured(trained: Trained) -> dict[str, Any]:
    """All questions on dev and test."""
    fitted = fit(trained.run)  # anew, not as kept
    trained.calibration = fitted
    found = {
        "dev_facts": {"who": fitted.who_facts, "when": fitted.when_facts},
        "maps": {"who": fitted.who.kind, "when": fitted.when.overlaps.kind},
        "decoder": fitted.when.decoder,
        "interval": {"shape": fitted.when.shape, "level": fitted.when.level},
    }
    trained.proposals = discover.fit(trained)
    dev = {**fitted.measured, "proposals": trained.proposals.measured}
    test = {**_who(trained), **_when(trained), "proposals": _proposals(trained)}
    return {**found, "questions": {name: {"dev": dev[name], "test": test[name]} for name in test}}


def _who(trained: Trained) -> dict[str, Any]:
    run, kb = trained.run, trained.kb
    cases = who_cases(EntityRanker(run, kb.train + kb.valid), kb.test, kb.test, run.timeline.first, run.timeline.last)
    after = trained.calibration.who(cases.raw, cases.group[:, None])
    return {
        "rank@1": _figures(cases.raw[:, 0], after[:, 0], cases.right[:, 0]),
        "top 10": _figures(cases.raw[cases.there], after[cases.there], cases.right[cases.there]),
    }


def _when(trained: Trained) -> dict[str, Any]:
    closed = both_ends_known(trained.kb.test)
    found = trained.dating.predict(*_triples(closed), trained.calibration.when)
    right = (found.begin <= closed.end) & (found.end >= closed.begin)
    begun = trained.kb.test[~spans.is_open(trained.kb.test.span)[0]]
    held = trained.dating.predict(*_triples(begun), trained.calibration.when)
    return {
        "span overlaps gold": _figures(found.mass, found.probability, right),
        "interval": {
            "coverage": float(((held.low <= begun.begin) & (begun.begin <= held.high)).mean()),
            "width": float(np.exp(np.log(held.high - held.low + 1).mean())),
            "cases": len(begun),
        },
    }


def _proposals(trained: Trained) -> dict[str, Any]:
    """The figures of all proposals, and of the likeliest ones: what they were said to be, and how many are right."""
    kb = trained.kb
    cases = discover.cases(trained, kb.train + kb.valid, kb.test)
    after = trained.proposals(cases.features, cases.both)
    first = {str(number): discover.first(after, cases.right, number) for number in FIRST}
    return {**_figures(cases.both, after, cases.right), "first": first}


def _triples(facts: Facts) -> tuple[Ints, Ints, Ints]:
    s, r, o = (np.asarray(column, np.int64) for column in (facts.s, facts.r, facts.o))
    return s, r, o


def _figures(before: Floats, after: Floats, right: NDArray[np.bool_]) -> dict[str, Any]:
    return {
        "before": calibration_error(before, right),
        "after": calibration_error(after, right),
        "right": float(right.mean()),
        "cases": len(right),
        "reliability": {"before": reliability(before, right), "after": reliability(after, right)},
    }


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """The figures without the tables."""
    return {
        name: {
            split: {key: value for key, value in figures.items() if key != "reliability"}
            for split, figures in both.items()
        }
        for name, both in found["questions"].items()
    }


if __name__ == "__main__":
    main()
