"""Run benchmarks and write what they measured to results/benchmarks.json, with the command and the machine.

python benchmarks/record.py [import train_step "serve runs/yago11k" …]

A name may come with arguments of that benchmark.
"""

import json
import subprocess
import sys
from datetime import date
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results" / "benchmarks.json"
ALL = sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in ("common", "record"))


def main() -> None:
    recorded = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for asked in sys.argv[1:] or ALL:
        name, *given = asked.split()
        command = ["benchmarks/" + name + ".py", *given, "--json"]
        done = subprocess.run([sys.executable, *command], cwd=ROOT, check=True, capture_output=True, text=True)
        recorded[name] = {
            "command": "python " + " ".join(command),
            "date": date.today().isoformat(),
            **json.loads(done.stdout),
        }
        print(name, {key: value for key, value in recorded[name].items() if isinstance(value, float)})
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
