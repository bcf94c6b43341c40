"""How long an audit of a CSV takes, as a process of its own with all imports, and whether it imports torch.

python benchmarks/audit.py [--facts 50000] [--rounds 3] [--json]
"""

import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from timeplex.datasets.synthetic import generate
from timeplex.kb.store import write_file

sys.path.insert(0, str(Path(__file__).parent))
from common import arguments, peak_rss_mb, seconds, show

AUDIT = """
import sys
sys.argv = ["timeplex", "audit", *sys.argv[1:]]
from timeplex.cli.main import run
try:
    run()
finally:
    print("torch" in sys.modules, file=sys.stderr)
"""


def audit_process(path: Path) -> bool:
    """Audit a file in a process of its own; whether torch was imported."""
    command = [sys.executable, "-c", AUDIT, str(path), "-o", str(path.with_name("findings.csv"))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stderr.split()[-1] == "True"


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--facts", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    kb = generate(options.facts, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "facts.csv"
        write_file(kb, path)
        imports_torch = audit_process(path)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        whole = [seconds(lambda: audit_process(path)) for _ in range(options.rounds)]
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    from timeplex.auditing.audit import audit

    audit(kb)
    alone = [seconds(lambda: audit(kb)) for _ in range(options.rounds)]
    result = {
        "facts": options.facts,
        "process_seconds": statistics.median(whole),
        # What it costs the processor; the wall clock also shows what else the machine does.
        "process_cpu_seconds": (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / options.rounds,
        "audit_seconds": statistics.median(alone),
        "imports_torch": imports_torch,
        "peak_rss_mb": peak_rss_mb(),
    }
    show(result, options.json)


if __name__ == "__main__":
    main()
