"""The first `when` of a by-day KB, which learns patterns, against the second, which finds them kept.

    python benchmarks/first_when.py [--facts 10000] [--years 10] [--json]

A KB of spans and events over some years by day is made and trained for one epoch: how good the model is does not change
the time. Both questions are asked by the command line, each in a process of its own, with two threads.

`first_when_seconds`   from the command to its answer; the aim is 20
`first_when_cpu`       processor time of the same, which does not depend on what else the machine does
`when_seconds`         the same question again
`first_over_second`    the first over the second
`first_when_rss_mb`    the most memory that the first takes
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from timeplex.api import train
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.kb.names import Names
from timeplex.kb.problems import Problems

sys.path.insert(0, str(Path(__file__).parent))
from common import arguments, show

RELATIONS = 8
BEGIN = 14_610
"""2010-01-01."""


def by_day(facts: int, years: int) -> TemporalKB:
    """Events and spans of months to years, evenly over the years; each relation lasts longer than the one before."""
    random = np.random.default_rng(0)
    last = BEGIN + round(365.25 * years) - 1
    s, o = random.integers(facts // 3, size=(2, facts))
    r = random.integers(RELATIONS, size=facts)
    begin = random.integers(BEGIN, last + 1, size=facts)
    end = np.minimum(begin + np.where(r < 2, 0, random.gamma(2, 30 * (r + 1))).astype(np.int64), last)
    names = ["entity " + pl.Series(np.arange(number)).cast(pl.String) for number in (facts // 3, RELATIONS)]
    whole = {"train": Facts(s, r, o, begin, end)}
    return TemporalKB(*map(Names, names), Granularity.DAY, whole, Problems.none(facts), "by-day")


def ask(run: str, fact: tuple[str, str, str]) -> tuple[float, float, float]:
    """Seconds, processor seconds and megabytes of a `when`."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "timeplex.cli.main", "when", run, *fact]
    process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "2"}, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"when failed with code {process.returncode}")
    return time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--facts", type=int, default=10_000)
    parser.add_argument("--years", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = f"{folder}/run"
        trained = train(
            by_day(options.facts, options.years), run, settings=["epochs=1", "phase2.epochs=1"], patterns=False
        )
        kb = trained.kb
        s, r, o, *_ = next(iter(kb.train))
        fact = kb.entities[s], kb.relations[r], kb.entities[o]
        first, cpu, memory = ask(run, fact)
        second, *_ = ask(run, fact)
    result = {
        "facts": options.facts,
        "instants": len(trained.run.timeline),
        "first_when_seconds": first,
        "first_when_cpu": cpu,
        "when_seconds": second,
        "first_over_second": first / second,
        "first_when_rss_mb": memory,
    }
    show(result, options.json)


if __name__ == "__main__":
    main()
