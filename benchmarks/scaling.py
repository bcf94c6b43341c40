"""Does the cost of training grow as it should? Synthetic KBs from 10⁴ to 10⁶ facts, drawn negatives.

    python benchmarks/scaling.py [--largest 1000000] [--json]

Each size runs in a process of its own. With drawn negatives the time a fact takes should not depend on the number of
entities, because a step touches only the rows that its batch uses.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

import torch

from timeplex.datasets.synthetic import generate
from timeplex.training.loop import Trainer
from timeplex.training.recipe import Recipe

sys.path.insert(0, str(Path(__file__).parent))
from common import arguments, peak_rss_mb, show

STEPS = 12


def measure(facts: int) -> dict[str, float]:
    """Microseconds a fact and peak memory of some training steps."""
    torch.set_num_threads(2)
    kb = generate(facts, seed=0)
    recipe = Recipe(negatives=1000, batch_size=1000, time_weight=0.0, l2=0.01, epochs=10_000, validate_every=10_000)
    trainer = Trainer(kb, recipe)
    times: list[float] = []
    last = time.perf_counter()

    def listen(now: object) -> None:
        nonlocal last
        times.append(time.perf_counter() - last)
        last = time.perf_counter()
        trainer.stop_asked = len(times) == STEPS

    try:
        trainer.fit(listen)
    except Exception as stopped:  # how a run without a folder is stopped, too
        if type(stopped).__name__ != "Stopped":
            raise
    step = sorted(times[2:])[len(times[2:]) // 2]
    return {
        "facts": facts,
        "entities": len(kb.entities),
        "microseconds_per_fact": 1e6 * step / recipe.batch_size,
        "peak_rss_mb": peak_rss_mb(),
    }


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--largest", type=int, default=1_000_000)
    parser.add_argument("--only", type=int, help="measure one size and print it as JSON")
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measure(options.only)))
        return
    sizes = [size for size in (10_000, 100_000, 1_000_000) if size <= options.largest]
    rows = []
    for size in sizes:
        command = [sys.executable, __file__, "--only", str(size)]
        rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        if not options.json:
            print("  ".join(f"{key} {value:,.1f}" for key, value in rows[-1].items()))
    speeds = [row["microseconds_per_fact"] for row in rows]
    result = {"sizes": rows, "slowest_over_fastest": max(speeds) / min(speeds)}
    show(result if options.json else {"slowest_over_fastest": result["slowest_over_fastest"]}, options.json)


if __name__ == "__main__":
    main()
