"""Add what a run reached on dev to a record of a search: a line of results/search/NAME.jsonl a run.

python tools/record_search.py NAME RUN… [-- KEY=VALUE …]

What comes after -- are the settings that the runs had beside their recipe, as given to `timeplex train --set`; the
command that repeats a run is made of them.
"""

import json
import sys
from pathlib import Path

from timeplex.training.run import RunFolder

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Append the lines."""
    given = sys.argv[1:]
    settings = given[given.index("--") + 1 :] if "--" in given else []
    name, *runs = given[: given.index("--")] if "--" in given else given
    lines = []
    for path in runs:
        folder = RunFolder(Path(path))
        recipe, metrics = folder.recipe(), folder.metrics()
        dataset = folder.kb().name
        model = "timeplex" if recipe.gadgets else recipe.model
        command = f"timeplex train {dataset} --recipe {dataset}/{model}"
        lines.append(
            {
                "dataset": dataset,
                "model": model,
                "settings": settings,
                "command": " ".join([command, *(f"--set {each}" for each in settings), "-o RUN"]),
                "seed": recipe.seed,
                **{key: metrics[key] for key in ("protocol", "dev", "best_epoch", "epochs", "seconds", "precision")},
                **({"phase2": metrics["phase2"]} if "phase2" in metrics else {}),
                "machine": metrics["machine"],
            }
        )
    with (ROOT / "results" / "search" / f"{name}.jsonl").open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


if __name__ == "__main__":
    main()
