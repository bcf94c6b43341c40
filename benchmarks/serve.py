"""Eight clients on loopback ask the explorer who and when, against the same calls through Python in the same run.

    python benchmarks/serve.py [RUN] [--seconds 600] [--clients 8] [--rate 20] [--json]

RUN is a trained run; without one, the full TimePlex is trained for two epochs on YAGO11k, because how good it is does
not change the time. `timeplex serve RUN` is a process of its own with two threads. Each client keeps one connection and
asks one question at a time, who and when in turns, about facts of test: first all together so many questions a second,
evenly (`rate`), then for half a minute as many as are answered (`…_full`).

`rank_p95_over_api`   95 % of `/v1/rank` take at most so many times the median of `Trained.rank`; the aim: 5
`when_p95_over_api`   the same of `/v1/when` and `Trained.when`; the aim: 5
`errors`              answers that are not what was asked for; the aim: none
`rss_growth_mb`       memory of the server at the end beyond that after a tenth of the time; the aim: flat
`start_seconds`       from the command to the first answer to `when`; the aim: 5
`load_average`        of the last minute: what else keeps the cores busy counts in every wait of a client
"""

import http.client
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # as the command line has it: both are to have the same

import timeplex
from timeplex.answers.trained import Trained

sys.path.insert(0, str(Path(__file__).parent))
from answer import trained_here
from common import arguments, seconds, show

CALLS = 100
"""So many of each kind are timed in Python, before the load and after it."""
K = 10


@dataclass
class Questions:
    """Facts of test, as who and when; of entities that train knows."""

    s: list[str]
    r: list[str]
    o: list[str]
    at: list[str]

    @classmethod
    def of(cls, trained: Trained) -> "Questions":
        kb, seen, facts = trained.kb, trained.asking.seen, trained.kb.test
        facts = facts[np.random.default_rng(0).permutation(np.flatnonzero(seen[facts.s] & seen[facts.o]))]
        first, last = trained.timeline.first, trained.timeline.last
        at = [f"{max(begin, first)}..{min(end, last)}" for *_, begin, end in facts]
        return cls(kb.entities.many(facts.s), kb.relations.many(facts.r), kb.entities.many(facts.o), at)

    def rank(self, row: int) -> dict[str, Any]:
        row %= len(self.s)
        return {"questions": [{"subject": self.s[row], "relation": self.r[row], "at": self.at[row]}], "k": K}

    def when(self, row: int) -> dict[str, Any]:
        row %= len(self.s)
        return {"questions": [{"subject": self.s[row], "relation": self.r[row], "object": self.o[row]}]}


def through_python(trained: Trained, asked: Questions) -> dict[str, list[float]]:
    """Seconds of single calls."""
    rows = range(CALLS)
    return {
        "rank": [
            seconds(lambda row=row: trained.rank(subject=asked.s[row], relation=asked.r[row], at=asked.at[row], k=K))  # type: ignore[misc]
            for row in rows
        ],
        "when": [seconds(lambda row=row: trained.when(asked.s[row], asked.r[row], asked.o[row])) for row in rows],  # type: ignore[misc]
    }


@contextmanager
def served(run: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The server and its port."""
    command = [sys.executable, "-m", "timeplex.cli.main", "serve", run, "--port", "0"]
    environment = {name: value for name, value in os.environ.items() if name != "TIMEPLEX_TOKEN"}
    process = subprocess.Popen(command, env={**environment, "OMP_NUM_THREADS": "2"}, stdout=subprocess.PIPE, text=True)
    try:
        found = re.search(r":(\d+)/", process.stdout.readline() if process.stdout else "")
        if not found:
            raise SystemExit("the server did not start")
        yield process, int(found[1])
    finally:
        process.terminate()
        process.wait(60)


def rss_mb(process: int) -> float:
    """Memory of a process, in megabytes of 10⁶ bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) * 1024 / 1e6


@dataclass
class Client:
    """One who asks and waits for the answer, over one connection."""

    port: int
    asked: Questions
    number: int
    taken: dict[str, list[float]] = field(default_factory=lambda: {"rank": [], "when": []})
    errors: int = 0

    def run(self, until: float, clients: int, rate: float) -> None:
        wire, turn, start = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60), 0, time.perf_counter()
        pause = clients / rate if rate else 0.0
        while time.perf_counter() < until:
            kind = ("rank", "when")[(turn + self.number) % 2]
            row = turn * clients + self.number
            self.taken[kind].append(seconds(lambda: self.ask(wire, kind, row)))  # noqa: B023
            turn += 1
            if pause:
                time.sleep(max(0.0, start + (turn + self.number / clients) * pause - time.perf_counter()))

    def ask(self, wire: http.client.HTTPConnection, kind: str, row: int) -> None:
        body = json.dumps(getattr(self.asked, kind)(row))
        try:
            wire.request("POST", f"/v1/{kind}", body, {"content-type": "application/json"})
            answer = wire.getresponse()
            told = json.loads(answer.read())
            self.errors += answer.status != 200 or "error" in told["answers"][0]
        except (OSError, http.client.HTTPException, ValueError, KeyError):
            self.errors += 1
            wire.close()


def load(process: int, port: int, asked: Questions, clients: int, length: float, rate: float) -> dict[str, Any]:
    """What so many clients are answered, and how the memory of the server grows."""
    until = time.perf_counter() + length
    each = [Client(port, asked, number) for number in range(clients)]
    threads = [threading.Thread(target=client.run, args=(until, clients, rate)) for client in each]
    for thread in threads:
        thread.start()
    time.sleep(length / 10)
    warm = rss_mb(process)
    for thread in threads:
        thread.join()
    taken = {kind: [second for client in each for second in client.taken[kind]] for kind in ("rank", "when")}
    return {
        "taken": taken,
        "errors": sum(client.errors for client in each),
        "requests": sum(map(len, taken.values())),
        "rss_mb": rss_mb(process),
        "rss_growth_mb": rss_mb(process) - warm,
    }


def measured(run: str, options: Any) -> dict[str, Any]:
    trained = timeplex.load(run, device="cpu").learn()
    asked = Questions.of(trained)
    for _ in range(2):  # the first round loads and compiles things
        api = through_python(trained, asked)
    begun = time.perf_counter()
    with served(run) as (process, port):
        first = Client(port, asked, 0)
        first.ask(http.client.HTTPConnection("127.0.0.1", port, timeout=60), "when", 0)
        started = time.perf_counter() - begun
        load(process.pid, port, asked, options.clients, min(10.0, options.seconds), options.rate)
        found = load(process.pid, port, asked, options.clients, options.seconds, options.rate)
        full = load(process.pid, port, asked, options.clients, min(30.0, options.seconds), 0)
    again = through_python(trained, asked)
    result: dict[str, Any] = {
        "clients": options.clients,
        "seconds": options.seconds,
        "rate": options.rate,
        "facts": len(trained.kb.facts),
        "model": trained.run.recipe.title,
    }
    for kind, taken in found["taken"].items():
        python = statistics.median(api[kind] + again[kind])
        cuts = statistics.quantiles(taken, n=100)
        result |= {
            f"{kind}_api_p50_ms": 1e3 * python,
            f"{kind}_p50_ms": 1e3 * cuts[49],
            f"{kind}_p95_ms": 1e3 * cuts[94],
        }
        result[f"{kind}_p95_over_api"] = cuts[94] / python
        result[f"{kind}_p95_over_api_full"] = statistics.quantiles(full["taken"][kind], n=100)[94] / python
    result |= {name: found[name] for name in ("requests", "errors", "rss_mb", "rss_growth_mb")}
    result["errors"] += first.errors + full["errors"]
    result["requests_a_second_full"] = full["requests"] / min(30.0, options.seconds)
    return {**result, "start_seconds": started, "load_average": os.getloadavg()[0]}


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("run", nargs="?", metavar="RUN")
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--rate", type=float, default=20.0, help="questions a second of all together")
    options = parser.parse_args()
    if options.run:
        result = measured(options.run, options)
    else:
        with tempfile.TemporaryDirectory() as folder:
            trained_here(f"{folder}/run", gadgets=True)
            result = measured(f"{folder}/run", options)
    show(result, options.json)


if __name__ == "__main__":
    main()
