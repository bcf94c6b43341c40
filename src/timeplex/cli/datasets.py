"""`timeplex datasets`: which benchmarks there are, and where they lie."""

from pathlib import Path

from timeplex.cli.options import DATA_DIR_OPTION, JSON_OPTION
from timeplex.cli.show import print_json, print_table, say


def datasets(data_dir: Path | None = DATA_DIR_OPTION, as_json: bool = JSON_OPTION) -> None:
    """List the benchmarks by name, with their sizes and whether they are on this machine.

    Example: timeplex datasets
    """
    from timeplex.datasets.benchmarks import BENCHMARKS, folder_of

    rows = []
    for name, benchmark in BENCHMARKS.items():
        folder = folder_of(name, data_dir)
        rows.append(
            {
                "name": name,
                "entities": benchmark.entities,
                "relations": benchmark.relations,
                **{split: benchmark.facts[split] for split in ("train", "valid", "test")},
                "granularity": str(benchmark.granularity),
                "folder": None if folder is None else str(folder),
            }
        )
    if as_json:
        print_json({"datasets": rows})
        return
    headers = ["name", "entities", "relations", "train", "valid", "test", "by", "here"]
    table = [[*list(row.values())[:7], "yes" if row["folder"] else "no"] for row in rows]
    print_table("Benchmarks", headers, table)
    say("One that is not here is downloaded on first use. `sample` comes with the package.")
    say("Next: timeplex stats sample")
