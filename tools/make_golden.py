"""Make tests/golden/FORMAT: folders that every later version must load (tests/test_golden.py).

Run it once when the format of KBs or runs changes; the folders of older formats stay as they are:

    python tools/make_golden.py tests/golden/1
"""

import contextlib
import shutil
import sys
import tempfile
from pathlib import Path

import timeplex
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
    """What is known of the folders without looking into their files."""
    with tempfile.TemporaryDirectory() as scratch:  # the first question leaves its calibration in the run
        run = Path(shutil.copytree(folder / "run", Path(scratch) / "run"))
        trained = timeplex.load(run)
        kb = timeplex.TemporalKB.load(folder / "kb")
        ranked = trained.rank(relation="headOf", object="Town 3", at="1961", k=5)
        return {
            "kb": kb.digest,
            "problems": len(kb.problems),
            "rank": dict(zip(ranked["id"], ranked["probability"], strict=True)),
            "when": trained.when("P5", "headOf", "Town 0")["begin"].to_list(),
        }


if __name__ == "__main__":
    main(Path(sys.argv[1]))
