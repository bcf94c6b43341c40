"""How good `fill` is at the other end of a fact: writes results/fill.json.

    python tools/measure_fill.py KB… [--split valid] [-o results/fill.json]

For each KB and side (the end given the begin, the begin given the end): the share of facts of a split with both ends
known whose missing side is told exactly, and the mean aeIOU of the span; by patterns of the training facts, and by

    median  the median duration of the relation
    copy    the other end of the subject's fact that begins (ends) at the same instant, else the median duration

and how far it can be believed that an end is open: expected calibration error, and log loss beside that of the share
of open ends of the relation. The facts are no evidence.
"""

import argparse
import json
import sys
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from timeplex.answers.calibration_maps import calibration_error, log_loss
from timeplex.evaluation.metrics import aeiou
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.patterns.base import SIDES, Evidence, Side, TimeQueries
from timeplex.patterns.dating import DateModel
from timeplex.patterns.open_ends import Begun, OpenEnds
from timeplex.patterns.other_end import other_end
from timeplex.sources import read
from timeplex.typing import Floats, Ints

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Measure the KBs that are named, and keep what is recorded of others."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kbs", nargs="+", metavar="KB")
    parser.add_argument("--split", default="valid", choices=("valid", "test"))
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "results" / "fill.json")
    options = parser.parse_args()
    recorded = json.loads(options.output.read_text()) if options.output.exists() else {}
    for name in options.kbs:
        kb = read(name)
        command = "python tools/measure_fill.py " + " ".join(sys.argv[1:])
        found = {"command": command, "date": date.today().isoformat(), **measured(kb, kb.splits[options.split])}
        recorded.setdefault(kb.name, {})[options.split] = found
        options.output.write_text(json.dumps(recorded, indent=1) + "\n")
        print(kb.name, options.split, json.dumps(found, indent=1))


def measured(kb: TemporalKB, asked: Facts, model: DateModel | None = None) -> dict[str, Any]:
    """All figures of facts that are no evidence."""
    evidence = Evidence.of(kb)
    model = DateModel.fit(evidence) if model is None else model
    closed = asked[asked.closed]
    begin, end = (np.asarray(each, np.int64) for each in closed.span)
    found: dict[str, Any] = {"facts": len(closed)}
    for side in SIDES:
        known = begin if side == "end" else end
        said = {"patterns": other_end(model, TimeQueries.of(closed), side, known).instant, **simple(kb, closed, side)}
        found[side] = {name: _figures(instant, side, begin, end) for name, instant in said.items()}
    begun = asked[asked.has_begin]
    likely, is_open = OpenEnds.fit(evidence)(Begun.of(begun)), ~begun.has_end
    train = kb.train[kb.train.has_begin]
    count, open_ = (np.bincount(train.r, weight, len(kb.relations)) for weight in (None, ~train.has_end))
    share = ((open_ + 0.5) / (count + 1))[begun.r]
    found["open"] = {
        "facts": len(begun),
        "error": calibration_error(likely, is_open),
        "log loss": {"patterns": log_loss(likely, is_open), "share": log_loss(share, is_open)},
    }
    return found


def simple(kb: TemporalKB, asked: Facts, side: Side) -> dict[str, Ints]:
    """What two simple rules say: (n,) each."""
    known = kb.train[kb.train.closed]
    length = np.asarray(known.end, np.int64) - known.begin
    median = np.array(
        [np.median(length[known.r == r]) if (known.r == r).any() else 0 for r in range(len(kb.relations))]
    )
    given = (asked.begin if side == "end" else asked.end).astype(np.int64)
    lasting = np.rint(median[asked.r]).astype(np.int64)
    usual = given + lasting if side == "end" else given - lasting
    sides = (known.begin, known.end) if side == "end" else (known.end, known.begin)
    same: dict[tuple[int, int], int] = {}
    for s, at, other in zip(known.s.tolist(), sides[0].tolist(), sides[1].tolist(), strict=True):
        same.setdefault((s, at), other)
    keys = zip(asked.s.tolist(), given.tolist(), usual.tolist(), strict=True)
    return {"median": usual, "copy": np.array([same.get((s, at), other) for s, at, other in keys], np.int64)}


def _figures(instant: Ints, side: Side, begin: Ints, end: Ints) -> dict[str, float]:
    truth, span = (end, (begin, instant)) if side == "end" else (begin, (instant, end))
    worth: Floats = aeiou(span, (begin, end))
    return {"exact": float((instant == truth).mean()), "aeiou": float(worth.mean())}


if __name__ == "__main__":
    main()
