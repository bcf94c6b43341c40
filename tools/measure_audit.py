"""Measure how many injected errors an audit finds, and write it to results/audit.json.

python tools/measure_audit.py [--seed 0] [--unseen 4 5 6] [DATASET …]
python tools/measure_audit.py --entities [--seed 0] [--unseen 4 5 6] [DATASET …]
python tools/measure_audit.py --run-epochs 8 [--runs-in FOLDER] [--kinds dates-shifted …] [--models 1 5] [DATASET …]

Into 2 % of the facts of a KB go errors of one kind (`injected_errors`), the KB is audited, and its facts
are looked at in the order of suspicion. What was wrong before counts as a false alarm. The settings of the audit
were chosen with the seeds 1, 2 and 3 on YAGO11k; `--unseen` are further seeds, of which the mean is recorded.

With `--entities` the audit is asked for unlikely objects, too ("… with entities"; settings by seed 1 of YAGO11k).

With `--run-epochs` models are trained for so long on the KB that has the errors, as a user's would be, and asked: one
on the splits of the KB ("… with a model"), and five of which each leaves out another fifth of all facts ("… with five
models"), so that all facts are judged. Recorded are the figures of the audit with and without them, and of the
models alone. The settings of the models' judgement were chosen with the seeds 1 and 2, one model each, on YAGO11k.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import timeplex
from timeplex.typing import Ints

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "audit.json"
DATASETS = ("yago11k", "wikidata12k", "synthetic")
SHARE = 0.02
FOLDS = 5
NUMBERS = {1: "a model", FOLDS: "five models"}
WITH_MODELS = ("dates-shifted", "objects-replaced")

sys.path.insert(0, str(ROOT / "benchmarks"))
from injected_errors import KINDS, average_precision, inject, precision_at_injected, ranked_facts  # noqa: E402

from common import machine  # noqa: E402 - a neighbour, not a package


def dataset(name: str) -> timeplex.TemporalKB:
    """A benchmark, or 20,000 generated facts."""
    return timeplex.generate(20_000, seed=0) if name == "synthetic" else timeplex.read(name)


def measure(kb: timeplex.TemporalKB, kind: str, seed: int, *, entities: bool = False) -> dict[str, Any]:
    """One injection, one audit."""
    wrong, rows = inject(kb, kind, SHARE, seed)
    start = time.perf_counter()
    findings = timeplex.audit(wrong, entities=entities)
    ranked = ranked_facts(findings)
    by_entity = findings.rows[(findings.frame["rule"] == "unlikely-entity").to_numpy()]
    more = {"by_rule": len(by_entity), "by_rule_right": int(np.isin(by_entity, rows).sum())} if entities else {}
    return {
        **more,
        "precision_at_injected": precision_at_injected(ranked, rows),
        "average_precision": average_precision(ranked, rows),
        "injected": len(rows),
        "suspicious": len(ranked),
        "seed": seed,
        "share": SHARE,
        "seconds": round(time.perf_counter() - start, 3),
    }


def measure_with_models(
    kb: timeplex.TemporalKB, kind: str, seed: int, epochs: int, folder: Path, numbers: list[int]
) -> dict[str, dict[str, Any]]:
    """One injection, one audit, and what one model or five add to it."""
    wrong, rows = inject(kb, kind, SHARE, seed)
    folder.mkdir(parents=True, exist_ok=True)
    parts = {NUMBERS[number]: [wrong] if number == 1 else folds(wrong) for number in numbers}
    audit = timeplex.audit(wrong)
    found = {}
    for name, kbs in parts.items():
        runs = [trained(part, folder / f"{name.replace(' ', '-')}-{at}", epochs) for at, part in enumerate(kbs)]
        start = time.perf_counter()
        joined = timeplex.audit(wrong, runs=runs, device="cpu")
        by_model = joined.rows[(joined.frame["rule"] == "model").to_numpy()]
        found[f"{kind} with {name}"] = {
            **_figures(ranked_facts(joined), rows),
            "without": _figures(ranked_facts(audit), rows),
            "by_model": len(by_model),
            "by_model_right": int(np.isin(by_model, rows).sum()),
            "judged": joined.notes[-1],
            "injected": len(rows),
            "seed": seed,
            "share": SHARE,
            "model": "timeplex-base",
            "epochs": epochs,
            "seconds": round(time.perf_counter() - start, 3),
        }
    return found


def _figures(ranked: Ints, rows: Ints) -> dict[str, float]:
    return {
        "precision_at_injected": precision_at_injected(ranked, rows),
        "average_precision": average_precision(ranked, rows),
    }


def folds(kb: timeplex.TemporalKB) -> list[timeplex.TemporalKB]:
    """The KB split in five ways: each leaves out another fifth of its facts, half of it as dev."""
    facts = kb.facts
    fold = np.random.default_rng(0).permutation(np.arange(len(facts)) % FOLDS)
    left_out = [np.flatnonzero(fold == each) for each in range(FOLDS)]
    return [
        replace(kb, splits={"train": facts[fold != each], "valid": facts[out[::2]], "test": facts[out[1::2]]})
        for each, out in enumerate(left_out)
    ]


def trained(kb: timeplex.TemporalKB, run: Path, epochs: int) -> Path:
    """The run folder of a short training, which is used again if it is there."""
    if not (run / "MANIFEST.json").exists():
        kb.save(run.with_suffix(".kb"))
        command = [
            str(Path(sys.executable).with_name("timeplex")),
            "train",
            str(run.with_suffix(".kb")),
            "-o",
            str(run),
        ]
        settings = ["--model", "timeplex-base", "--set", f"epochs={epochs}", "--json"]
        subprocess.run([*command, *settings], check=True, stdout=subprocess.DEVNULL)  # noqa: S603 - our own command
    return run


def record(name: str, measured: dict[str, dict[str, Any]], command: str) -> None:
    """Add figures of a dataset to the file."""
    recorded: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    about = {
        "command": command,
        "date": date.today().isoformat(),
        "version": timeplex.__version__,
        "machine": machine(),
    }
    for kind, figures in measured.items():
        recorded.setdefault(name, {})[kind] = {**figures, **about}
        print(name, kind, {key: round(value, 3) for key, value in figures.items() if type(value) is float})
    RESULTS.write_text(json.dumps(recorded, indent=1) + "\n")


def main() -> None:
    """Measure all kinds of errors in all datasets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("datasets", nargs="*", default=[*DATASETS], metavar="DATASET")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--unseen", type=int, nargs="*", default=[4, 5, 6])
    parser.add_argument("--entities", action="store_true", help="ask for unlikely objects, too")
    parser.add_argument("--run-epochs", type=int, help="measure what models add that are trained for so long")
    parser.add_argument("--runs-in", type=Path, help="keep the runs in this folder, and use those that are there")
    parser.add_argument("--kinds", nargs="*", choices=WITH_MODELS, default=[*WITH_MODELS], help="with models")
    parser.add_argument("--models", type=int, nargs="*", choices=NUMBERS, default=[*NUMBERS], help="how many")
    options = parser.parse_args()
    for name in options.datasets:
        kb = dataset(name)
        if options.run_epochs:
            with tempfile.TemporaryDirectory() as passing:
                for kind in options.kinds:
                    folder = (options.runs_in or Path(passing)) / f"{name}-{kind}-{options.seed}"
                    found = measure_with_models(kb, kind, options.seed, options.run_epochs, folder, options.models)
                    record(name, found, f"python tools/measure_audit.py --run-epochs {options.run_epochs} {name}")
            continue
        for kind in ("objects-replaced",) if options.entities else KINDS:
            further = [measure(kb, kind, seed, entities=options.entities) for seed in options.unseen]
            means = {
                key: statistics.fmean(run[key] for run in further) if further else None
                for key in ("precision_at_injected", "average_precision")
            }
            found = measure(kb, kind, options.seed, entities=options.entities)
            found["unseen"] = {"seeds": options.unseen, **means}
            words = f"{kind} with entities" if options.entities else kind
            flag = " ".join(["--entities --unseen", *map(str, options.unseen), "-- "]) if options.entities else ""
            record(name, {words: found}, f"python tools/measure_audit.py {flag}{name}")


if __name__ == "__main__":
    main()
