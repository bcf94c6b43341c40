"""What patterns take: fitting all of a KB against a bare pass over its pairs of facts, one question, memory.

    python benchmarks/patterns.py [yago11k icews05-15] [--json]

Each KB has a process of its own. First all code is compiled, or read where it was compiled before, by a tiny KB.

`compile_seconds`  that, which counts for nothing else
`fit_seconds`      fitting all patterns of dates, and those that rank entities of such a KB, on train
`fit_cpu`          processor time of the same, which does not depend on what else the machine does
`scan_seconds`     a compiled loop over all pairs of facts of an entity that adds up the gaps between their begins
`fit_over_scan`    processor time of fitting by that of the scan
`peak_rss_mb`      memory of the process, reading the KB and asking included
`when_p50_ms`, `rank_p50_ms`   one question of `timeplex.learn(kb)` about a dev fact (YAGO11k)
`learn_seconds`    what comes before the first of them: weights and calibration
"""

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

sys.path.insert(0, str(Path(__file__).parent))
from common import arguments, peak_rss_mb, seconds, show

KBS = ("yago11k", "icews05-15")
ASKED = ("yago11k",)
QUESTIONS = 100


@njit
def scan(start: np.ndarray, begin: np.ndarray) -> float:
    """Σ of the gaps between the begins of all pairs of facts of an entity."""
    total = 0.0
    for entity in range(len(start) - 1):
        for one in range(start[entity], start[entity + 1]):
            for other in range(start[entity], start[entity + 1]):
                total += begin[one] - begin[other]
    return total


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock, and of processor time."""
    cpu = time.process_time()
    return seconds(work), time.process_time() - cpu


def measure(name: str) -> dict[str, Any]:
    import timeplex
    from timeplex.patterns import ranking
    from timeplex.patterns.base import PATTERNS, Evidence
    from timeplex.patterns.dating import Fitted

    def fit(evidence: Evidence) -> None:
        Fitted.of(evidence)
        for each in ranking.link_patterns(evidence):
            PATTERNS[each](evidence)

    kb = timeplex.read(name)
    evidence = Evidence.of(kb)
    few = replace(evidence, facts=evidence.facts[:50])
    compile_seconds, _ = timed(lambda: (fit(few), scan(few.graph.start, few.graph.begin)))
    fit_seconds, fit_cpu = timed(lambda: fit(Evidence.of(kb)))
    links = evidence.graph
    scan_seconds, scan_cpu = timed(lambda: scan(links.start, links.begin))
    found = {
        "facts": len(evidence),
        "compile_seconds": compile_seconds,
        "fit_seconds": fit_seconds,
        "scan_seconds": scan_seconds,
        "fit_cpu": fit_cpu,
        "fit_over_scan": fit_cpu / scan_cpu,
    }
    if name in ASKED:
        found |= questions(timeplex.learn(kb), kb)
    return {**found, "peak_rss_mb": peak_rss_mb()}


def questions(known: Any, kb: Any) -> dict[str, float]:
    facts = kb.valid[kb.valid.has_begin][:QUESTIONS]
    asked = [(kb.entities[s], kb.relations[r], kb.entities[o], begin) for s, r, o, begin, _ in facts]

    def when(s: str, r: str, o: str, _: int) -> None:
        known.when(s, r, o)

    def rank(s: str, r: str, _: str, begin: int) -> None:
        known.rank(subject=s, relation=r, at=begin)

    learning = seconds(lambda: (when(*asked[0]), rank(*asked[0])))
    whens, ranks = ([seconds(lambda one=one, ask=ask: ask(*one)) for one in asked] for ask in (when, rank))
    return {
        "learn_seconds": learning,
        "when_p50_ms": 1000 * statistics.median(whens),
        "rank_p50_ms": 1000 * statistics.median(ranks),
    }


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("kbs", nargs="*", default=KBS)
    parser.add_argument("--alone", action="store_true", help="measure the one KB in this process")
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(measure(options.kbs[0])))
        return
    result: dict[str, Any] = {}
    for name in options.kbs:
        command = [sys.executable, __file__, name, "--alone"]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        result[name] = json.loads(done.stdout.splitlines()[-1])
    show(result, options.json)


if __name__ == "__main__":
    main()
