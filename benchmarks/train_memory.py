"""Peak memory of training with the shipped recipes: an epoch and a look at dev, as `timeplex train` does them.

    python benchmarks/train_memory.py [--json]

Batches, dimension and everything else are those of the recipe <dataset>/timeplex-base; one epoch is the first of many
alike. Each dataset is trained in a process of its own.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from common import arguments, show

DATASETS = ("yago11k", "wikidata12k", "icews14", "icews05-15")

TRAIN = """
import resource, sys, torch
from timeplex.datasets import benchmarks
from timeplex.training import recipe
from timeplex.training.loop import Trainer
from pathlib import Path
torch.set_num_threads(2)
name, folder = sys.argv[1:]
chosen = recipe.read(f"{name}/timeplex-base").with_settings(["epochs=1"])
Trainer(benchmarks.load(name), chosen, Path(folder) / "run").fit()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)
"""


def peak_of_training(name: str) -> float:
    """Megabytes of 10⁶ bytes."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", TRAIN, name, folder]
        return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    options = arguments(__doc__.splitlines()[0]).parse_args()
    peaks = {name: peak_of_training(name) for name in DATASETS}
    show({"peak_rss_mb": peaks, "largest_mb": max(peaks.values())}, options.json)


if __name__ == "__main__":
    main()
