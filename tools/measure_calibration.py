"""How far the probabilities of answers by patterns can be believed: writes results/calibration.json.

    python tools/measure_calibration.py KB… [-o results/calibration.json]

For each KB (a name such as yago11k, a path, or `synthetic`) what `timeplex.learn` says is measured on test, whose facts
are hidden: it learns from train and valid alone. Recorded under "<name> by patterns" are, before and after calibration,
the expected calibration errors on dev (each case by maps fitted on the other folds) and on test (by the maps that users
get), with a table of reliability in ten bins of equal size; and the error that comes `by chance`, which is to be
expected of so few cases if all probabilities were exactly right. The questions are

    rank@1               the first new answer is right: what train and valid state for the time is known and left out,
                         and right is what test states for the time; both directions
    top 10               the same for all ten answers
    span overlaps gold   the most likely span shares an instant with the true one; facts with both ends known
    interval             the 80 % interval holds the true begin; facts with a begin
    proposals            what `discover` proposes is stated by dev (test), if train (for test: train and valid) is
                         known; about 10,000 entities are asked about, drawn with a fixed seed

`synthetic` is a world that nothing was developed on: its seed, and all its gaps, durations and shares, are its own.
"""

import argparse
import json
import sys
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import timeplex
from timeplex.answers import discover
from timeplex.answers.calibration import at_an_instant, who_cases
from timeplex.answers.calibration_maps import BINS, calibration_error, reliability
from timeplex.answers.learned import Learned
from timeplex.datasets.synthetic import SyntheticSpec, Years, generate
from timeplex.kb import spans
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.kb.split import split_randomly
from timeplex.patterns.base import TimeQueries
from timeplex.training.run import machine
from timeplex.typing import Floats

ROOT = Path(__file__).parents[1]
DRAWS = 100
FIRST = (50, 200, 500)
"""So many of the likeliest proposals are looked at apart."""
UNSEEN = SyntheticSpec(
    last_year=1990,
    wedding_year=Years.uniform(1800, 1960),
    wedding_age=Years.normal(24, 3, 19, 33),
    life=Years.normal(66, 9, 45, 90),
    school_age=Years.normal(16, 1, 14, 19),
    study=Years(2, (0.5, 0.3, 0.2)),
    wait=Years.geometric(0.4, 0, 5),
    job=Years.geometric(0.2, 2, 10),
    prize=Years.normal(9, 3, 1, 14),
    divorce=Years.normal(8, 3, 1, 20),
    studied=0.6,
    married=0.7,
    died=0.6,
    honoured=0.3,
    community=60,
    places=4,
    local=0.7,
    periods=(3, 4),
    first_games=1860,
)


def main() -> None:
    """Measure the KBs that are named, and keep what is recorded of others."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kbs", nargs="+", metavar="KB")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "results" / "calibration.json")
    options = parser.parse_args()
    recorded = json.loads(options.output.read_text()) if options.output.exists() else {}
    for name in options.kbs:
        kb = unseen() if name == "synthetic" else timeplex.read(name)
        found = measured(kb)
        recorded[f"{kb.name} by patterns"] = {
            "model": "patterns",
            "command": "python tools/measure_calibration.py " + " ".join(sys.argv[1:]),
            "date": date.today().isoformat(),
            "bins": f"{BINS} of equal size",
            "machine": machine(),
            **found,
        }
        options.output.write_text(json.dumps(recorded, indent=1) + "\n")
        print(kb.name, json.dumps(summary(found), indent=1), flush=True)


def unseen() -> TemporalKB:
    """A KB of another world than that of all tests, split at random."""
    return split_randomly(generate(8_000, 77, world=UNSEEN), seed=77)


def measured(kb: TemporalKB) -> dict[str, Any]:
    """All questions on dev and test, whose facts are hidden from what is learned."""
    known = Learned(replace(kb, splits={name: kb.split(name) for name in ("train", "valid")})).learn()
    links, dates = known.links, known.dates
    test = {**_who(known, kb.test), **_when(known, kb.test), "proposals": proposed(known, kb)}
    dev = {**links.measured, **dates.measured, "proposals": known.proposals.measured}
    return {
        "dev_facts": {"who": links.cases, "when": dates.cases},
        "maps": {"who": links.probabilities.kind, "when": dates.overlaps.kind},
        "interval": {"level": dates.level},
        "questions": {name: {"dev": dev.get(name), "test": of_test} for name, of_test in test.items()},
    }


def _who(known: Learned, test: Facts) -> dict[str, Any]:
    """Questions that tell the span of a fact, and those at one instant of it, as people ask."""
    links, ends = known.links, (known.timeline.first, known.timeline.last)
    then = at_an_instant(test, *ends)
    alone = who_cases(links.who, then, test, *ends)  # as if the fact were of that instant alone
    found = {}
    for name, calibrated, asked, at_a_time in (
        ("", links.probabilities, test, False),
        (", at an instant", links.held_probabilities, then, True),
    ):
        cases = who_cases(links.who, asked, test, *ends, at_a_time=at_a_time)
        after = calibrated(cases.raw, cases.group[:, None])
        found[f"rank@1{name}"] = _figures(cases.raw[:, 0], after[:, 0], cases.right[:, 0])
        found[f"top 10{name}"] = _figures(cases.raw[cases.there], after[cases.there], cases.right[cases.there])
    found["rank@1, at an instant"]["right, as of that instant alone"] = float(alone.right[:, 0].mean())
    return found


def _when(known: Learned, test: Facts) -> dict[str, Any]:
    closed, begun = test[test.closed], test[~spans.is_open(test.span)[0]]
    found = known.dates.predict(TimeQueries.of(closed))
    right = (found.begin <= closed.end) & (found.end >= closed.begin)
    held = known.dates.predict(TimeQueries.of(begun))
    return {
        "span overlaps gold": _figures(None, found.probability, right),
        "interval": {
            "coverage": float(((held.low <= begun.begin) & (begun.begin <= held.high)).mean()),
            "width": float(np.exp(np.log(held.high - held.low + 1).mean())),
            "cases": len(begun),
        },
    }


def proposed(known: Learned, kb: TemporalKB) -> dict[str, Any]:
    """What all proposals, and the likeliest ones, were said to be, and how many of them test states."""
    search = discover.Search(known.kb, known.kb.facts, known.links.who.model, known.dates.model)
    cases = discover.cases(search, kb.test, kb.facts)
    said = known.proposals(cases.judged)
    first = {str(number): discover.first(said, cases.right, number) for number in FIRST}
    return {**_figures(cases.judged.both, said, cases.right), "first": first}


def _figures(before: Floats | None, after: Floats, right: NDArray[np.bool_]) -> dict[str, Any]:
    stages = {"after": after} if before is None else {"before": before, "after": after}
    return {
        **{name: calibration_error(said, right) for name, said in stages.items()},
        "by chance": by_chance(after),
        "right": float(right.mean()),
        "cases": len(right),
        "reliability": {name: reliability(said, right) for name, said in stages.items()},
    }


def by_chance(said: Floats) -> float:
    """The calibration error to expect of so many cases if all probabilities were exactly right."""
    chance = np.random.default_rng(0)
    return float(np.mean([calibration_error(said, chance.random(len(said)) < said) for _ in range(DRAWS)]))


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """The figures without the tables."""
    return {
        name: {
            split: {key: value for key, value in (figures or {}).items() if key != "reliability"}
            for split, figures in both.items()
        }
        for name, both in found["questions"].items()
    }


if __name__ == "__main__":
    main()
