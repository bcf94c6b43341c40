"""Who, by patterns: how well a KB's dev facts are ranked, how long fitting and one question take, how much memory.

    python benchmarks/patterns_links.py yago11k [--run RUN] [--parts 4] [--no-trees] [--json]

`folds`, `linear`, `trees`   MRR and HITS@k of dev, in percent, under `published-code`: weights from folds of train;
                             adjusted on dev; with trees. The last two are cross-fitted: dev facts are cut in parts, and
                             each is ranked by a model that was not adjusted on it
`fit_seconds`                fitting all patterns on train
`learn_seconds`              weights from folds, and pools of dev
`rank_p50_ms`                one question, all entities, without trees
`peak_rss_mb`                memory of this process

With a RUN, the scores of its model are one more feature. Test facts are not touched.
"""

import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import timeplex
from timeplex.evaluation.report import evaluate_scores
from timeplex.kb import spans
from timeplex.kb.facts import TemporalKB
from timeplex.patterns.base import PATTERNS, Evidence, LinkQueries
from timeplex.patterns.ranking import Course, Extra, LinkModel, link_patterns

sys.path.insert(0, str(Path(__file__).parent))
from common import arguments, peak_rss_mb, seconds, show

PROTOCOL = "published-code"
QUESTIONS = 100


def embeddings(folder: str) -> Extra:
    """The scores of a trained model at the begin of each question; the mean over time where that is open."""
    import torch

    run = timeplex.load(folder).run
    relations = len(run.kb.relations)

    def extra(queries: LinkQueries) -> np.ndarray:
        inverse = queries.r >= relations
        begin = np.where(queries.begin == spans.OPEN_BEGIN, run.timeline.first, queries.begin)
        place = np.clip(np.searchsorted(run.timeline.instants, begin), 0, len(run.timeline) - 1)
        x, r, t = (torch.from_numpy(column) for column in (queries.x, queries.r % relations, place))
        out = np.empty((len(queries), len(run.kb.entities)), np.float32)
        with torch.no_grad():
            for rows, ask in ((~inverse, run.scorer.objects), (inverse, run.scorer.subjects)):
                if rows.any():
                    given, relation, time = x[rows], r[rows], t[rows]
                    pair = (relation, given) if ask == run.scorer.subjects else (given, relation)
                    out[rows] = ask(*pair, (time, time)).float().numpy()
        return out

    return extra


def figures(kb: TemporalKB, models: list[LinkModel], part: np.ndarray) -> dict[str, float]:
    """Dev facts ranked over all entities, those of each part by its model."""
    first, seen = kb.timeline("calendar").first, {"object": 0, "subject": 0}

    def scores(direction: str, x: np.ndarray, r: np.ndarray, begin: np.ndarray, _: np.ndarray) -> np.ndarray:
        # The protocol says when a span begins; an open one it puts at the first instant of all.
        begin = np.where(begin == first, spans.OPEN_BEGIN, begin)
        directed = r + len(kb.relations) * (direction == "subject")
        queries = LinkQueries(x, directed, begin, np.full(len(x), spans.OPEN_END))
        here = part[seen[direction] : seen[direction] + len(x)]
        seen[direction] += len(x)
        out = np.empty((len(x), len(kb.entities)))
        for each in np.unique(here):
            out[here == each] = models[each].scores(queries[here == each])
        return out

    report = evaluate_scores(kb, scores, split="valid", protocol=PROTOCOL)
    chosen = (pl.col("filter") == report.protocol.filter) & (pl.col("direction") == "both")
    row = report.links().filter(chosen).to_dicts()[0]
    return {name: round(100 * row[name], 2) for name in ("mrr", "hits@1", "hits@3", "hits@10")}


def measure(name: str, run: str | None, parts: int, trees: bool) -> dict[str, Any]:
    kb = timeplex.read(name)
    evidence = Evidence.of(kb)
    extra = None if run is None else embeddings(run)
    fit_seconds = seconds(lambda: [PATTERNS[each](evidence) for each in link_patterns(evidence)])
    found: list[Course] = []
    learn_seconds = seconds(lambda: found.append(Course(kb, evidence, extra=extra, asks="begin")))
    course, everyone = found[0], np.zeros(len(kb.valid), np.int64)
    by_folds = LinkModel(course.patterns, course.before, "begin")
    figure = {"folds": figures(kb, [by_folds], everyone)}
    part = np.random.default_rng(1).integers(parts, size=len(kb.valid))
    models = [course.model(part != each, trees=trees) for each in range(parts)]
    figure["linear"] = figures(kb, [replace(model, trees=None) for model in models], part)
    if trees:
        figure["trees"] = figures(kb, models, part)
    asked = LinkQueries.of(kb.valid[:QUESTIONS], "object", len(kb.relations))
    times = [seconds(lambda row=row: by_folds.scores(asked[row : row + 1])) for row in range(len(asked))]
    return {
        "kb": name,
        "protocol": PROTOCOL,
        **{f"{stage}_{metric}": value for stage, row in figure.items() for metric, value in row.items()},
        "fit_seconds": round(fit_seconds, 2),
        "learn_seconds": round(learn_seconds, 1),
        "rank_p50_ms": round(1000 * statistics.median(times), 2),
        "peak_rss_mb": round(peak_rss_mb()),
    }


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("kb")
    parser.add_argument("--run", help="a trained model, whose scores are one more feature")
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--no-trees", action="store_true")
    options = parser.parse_args()
    show(measure(options.kb, options.run, options.parts, not options.no_trees), options.json)


if __name__ == "__main__":
    main()
