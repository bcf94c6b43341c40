"""One question to a trained model against the bare product that scores it, and a thousand in one call.

    python benchmarks/answer.py [RUN] [--questions 200] [--json]

Without a RUN, models are trained for two epochs on YAGO11k with the dimension of its recipe (200): how good they are
does not change the time. Figures of the base model have the plain names, those with gadgets end with `_gadgets`.

`gemm_p50_ms`       the bare score product of one query: (1, 2 · dimension) times all entities
`rank_p50_ms`       `Trained.rank` of one question, k = 10, names and dates as texts, a DataFrame as result
`when_p50_ms`       `Trained.when` of one fact
`rank_over_gemm`    (rank_p50_ms − 2) / gemm_p50_ms, `when_over_gemm` likewise; the aim is at most 2
`batch_speedup`     questions a second in one call with 1,000 of them over those asked one by one; the aim is 20

The product and the questions are taken in turns, so that each finds the caches as the other left them, and what else
the machine does hits both alike.
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
    table = trained.run.model.entity.detach()
    query = torch.randn(1, table.shape[1])
    trained.calibration  # noqa: B018 - fitted before the clock runs

    def product() -> None:
        with torch.inference_mode():
            query @ table.T

    def rank(row: int) -> None:
        trained.rank(subject=s[row], relation=r[row], at=at[row])

    def when(row: int) -> None:
        trained.when(s[row], r[row], o[row])

    for row in range(20):
        rank(row), when(row), product()
    times = [
        (seconds(product), seconds(lambda row=row: rank(row)), seconds(product), seconds(lambda row=row: when(row)))  # type: ignore[misc]
        for row in range(questions)
    ]
    gemm = 1e3 * statistics.median(time for row in times for time in (row[0], row[2]))
    ranks, whens = (1e3 * statistics.median(row[column] for row in times) for column in (1, 3))
    together = statistics.median(
        seconds(lambda: trained.rank(subject=s, relation=r, at=at))
        for _ in range(5)  # type: ignore[arg-type]
    )
    return {
        "gemm_p50_ms": gemm,
        "rank_p50_ms": ranks,
        "when_p50_ms": whens,
        "rank_over_gemm": (ranks - 2) / gemm,
        "when_over_gemm": (whens - 2) / gemm,
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
