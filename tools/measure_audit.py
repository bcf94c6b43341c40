"""Measure how many injected errors an audit finds, and write it to results/audit.json.

python tools/measure_audit.py [--seed 0] [--unseen 4 5 6] [DATASET …]

Into 2 % of the facts of a KB go errors of one kind (`timeplex.auditing.injection`), the KB is audited, and its facts
are looked at in the order of suspicion. What was wrong before counts as a false alarm. The settings of the audit
were chosen with the seeds 1, 2 and 3 on YAGO11k; `--unseen` are further seeds, of which the mean is recorded.
"""

import argparse
import json
import statistics
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

import timeplex
from timeplex.auditing.injection import KINDS, inject
from timeplex.auditing.measure import average_precision, precision_at_injected, ranked_facts

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "audit.json"
DATASETS = ("yago11k", "wikidata12k", "synthetic")
SHARE = 0.02

sys.path.insert(0, str(ROOT / "benchmarks"))
from common import machine  # noqa: E402 - a neighbour, not a package


def dataset(name: str) -> timeplex.TemporalKB:
    """A benchmark, or 20,000 generated facts."""
    return timeplex.generate(20_000, seed=0) if name == "synthetic" else timeplex.read(name)


def measure(kb: timeplex.TemporalKB, kind: str, seed: int) -> dict[str, Any]:
    """One injection, one audit."""
    wrong, rows = inject(kb, kind, SHARE, seed)
    start = time.perf_counter()
    ranked = ranked_facts(timeplex.audit(wrong))
    return {
        "precision_at_injected": precision_at_injected(ranked, rows),
        "average_precision": average_precision(ranked, rows),
        "injected": len(rows),
        "suspicious": len(ranked),
        "seed": seed,
        "share": SHARE,
        "seconds": round(time.perf_counter() - start, 3),
    }


def main() -> None:
    """Measure all kinds of errors in all datasets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("datasets", nargs="*", default=[*DATASETS], metavar="DATASET")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--unseen", type=int, nargs="*", default=[4, 5, 6])
    options = parser.parse_args()
    recorded: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in options.datasets:
        kb = dataset(name)
        recorded[name] = {}
        for kind in KINDS:
            further = [measure(kb, kind, seed) for seed in options.unseen]
            means = {
                key: statistics.fmean(run[key] for run in further) if further else None
                for key in ("precision_at_injected", "average_precision")
            }
            recorded[name][kind] = {
                **measure(kb, kind, options.seed),
                "unseen": {"seeds": options.unseen, **means},
                "command": f"python tools/measure_audit.py {name}",
                "date": date.today().isoformat(),
                "version": timeplex.__version__,
                "machine": machine(),
            }
            print(
                name,
                kind,
                {key: round(value, 3) for key, value in recorded[name][kind].items() if type(value) is float},
            )
    RESULTS.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
