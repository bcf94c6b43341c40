"""How fast a CSV becomes a KB, against the time polars takes just to read it, and how much memory it needs.

python benchmarks/import.py [--rows 1000000] [--rounds 7] [--json]
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import polars as pl

from timeplex.datasets.synthetic import generate
from timeplex.kb.readers import read_files
from timeplex.kb.store import write_file

sys.path.insert(0, str(Path(__file__).parent))
from common import arguments, peak_rss_mb, show, side_by_side


def memory_of_import(path: Path) -> float:
    """Peak memory of a process that does nothing else than import the file."""
    command = [sys.executable, __file__, "--only-import", str(path)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only-import", type=Path, help="import a file and print the peak memory")
    options = parser.parse_args()
    if options.only_import:
        read_files([options.only_import])
        print(peak_rss_mb())
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "facts.csv"
        write_file(generate(options.rows, seed=0), path)
        polars, ours = side_by_side(lambda: pl.read_csv(path), lambda: read_files([path]), rounds=options.rounds)
        result = {
            "rows": options.rows,
            "file_mb": path.stat().st_size / 1e6,
            "polars_seconds": polars,
            "import_seconds": ours,
            "import_over_polars": ours / polars,
            "peak_rss_mb": memory_of_import(path),
        }
    show(result, options.json)


if __name__ == "__main__":
    main()
