"""One question to a trained run, whose scores count beside patterns, and a thousand in one call.

    python benchmarks/answer.py [RUN] [--questions 200] [--json]

Without a RUN, models are trained for two epochs on YAGO11k with the dimension of its recipe (200): how good they are
does not change the time. Figures of the base model have the plain names, those with gadgets end with `_gadgets`.

`rank_p50_ms`       `Trained.rank` of one question, k = 10, names and dates as texts, a DataFrame as result; the aim: 10
`when_p50_ms`       `Trained.when` of one fact; the aim: 10
`restore_seconds`   from a loaded run to its first answers, when what was learned is kept
`batch_speedup`     questions a second in one call with 1,000 of them over those asked one by one
"""

import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import timeplex
from timeplex.answers.trained import Trained
from timeplex.datasets import benchmarks
from timeplex.training.loop import Trainer
from timeplex.training.recipe import Recipe, read

sys.path.insert(0, str(Path(__file__).parent))
from common import arguments, peak_rss_mb, seconds, show

RECIPE = "yago11k/timeplex"
MANY = 1000


def trained_here(folder: str, gadgets: bool) -> Trained:
    recipe: Recipe = read(RECIPE).with_settings(["epochs=2"])
    if not gadgets:
        recipe = recipe.model_copy(update={"gadgets": {}})
    Trainer(benchmarks.load("yago11k"), recipe, Path(folder), "cpu", None).fit(lambda now: None)
    return timeplex.load(folder, device="cpu")


def measured(trained: Trained, questions: int) -> dict[str, float]:
    kb, seen, facts = trained.kb, trained.asking.seen, trained.kb.test
    rows = np.random.default_rng(0).permutation(np.flatnonzero(seen[facts.s] & seen[facts.o]))[:MANY]
    facts = facts[rows]
    s, r, o = kb.entities.many(facts.s), kb.relations.many(facts.r), kb.entities.many(facts.o)
    first, last = int(trained.run.timeline.instants[0]), int(trained.run.timeline.instants[-1])
    at = [f"{max(begin, first)}..{min(end, last)}" for *_, begin, end in facts]

    def rank(row: int) -> None:
        trained.rank(subject=s[row], relation=r[row], at=at[row])

    def when(row: int) -> None:
        trained.when(s[row], r[row], o[row])

    trained.learn()  # before the clock runs
    again = timeplex.load(trained.run.path, device="cpu")
    restored = seconds(lambda: (again.rank(subject=s[0], relation=r[0], at=at[0]), again.when(s[0], r[0], o[0])))
    for row in range(20):
        rank(row), when(row)
    times = [(seconds(lambda row=row: rank(row)), seconds(lambda row=row: when(row))) for row in range(questions)]  # type: ignore[misc]
    ranks, whens = (1e3 * statistics.median(row[column] for row in times) for column in (0, 1))
    together = statistics.median(
        seconds(lambda: trained.rank(subject=s, relation=r, at=at))
        for _ in range(5)  # type: ignore[arg-type]
    )
    return {
        "rank_p50_ms": ranks,
        "when_p50_ms": whens,
        "restore_seconds": restored,
        "batch_seconds": together,
        "batch_speedup": ranks / 1e3 * len(s) / together,
    }


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("run", nargs="?", metavar="RUN")
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.run:
        result = measured(timeplex.load(options.run, device="cpu"), options.questions)
    else:
        with tempfile.TemporaryDirectory() as folder:
            result = measured(trained_here(f"{folder}/base", gadgets=False), options.questions)
            with_gadgets = measured(trained_here(f"{folder}/gadgets", gadgets=True), options.questions)
        result |= {f"{name}_gadgets": value for name, value in with_gadgets.items()}
    show({"threads": options.threads, **result, "peak_rss_mb": peak_rss_mb()}, options.json)


if __name__ == "__main__":
    main()
