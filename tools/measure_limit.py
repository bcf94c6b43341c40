"""How close to the limit are patterns? On made-up worlds, whose distributions are known: writes results/limit.json.

    python -m tools.measure_limit [--facts 5000] [--seeds 1] [-o results/limit.json]

A world of `timeplex.datasets.synthetic` is split at random; for each test fact the posterior over its spans, and over
the entities that could stand in it, is computed from the train facts and the distributions that the world was drawn
from (`world_posterior.World`). Nobody who sees the train facts alone can do better on average than

    dates     the span with the highest expected aeIOU under that posterior
    entities  all entities in the order of their posterior probability, at the begin of the fact (as `published-code`)

That knows more than facts can tell: every distribution, and by its number to which community a town belongs. `learner`
answers by the same formulas, with all that estimated from the train facts (`world_learner.Learner`).

Ours are the models of `timeplex.patterns`: `DateModel`, learned from train as `timeplex when` does, and `LinkModel`
with trees, from train and dev.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tools.world_learner import Learner
from tools.world_posterior import World, best_span

from timeplex.datasets.synthetic import generate
from timeplex.evaluation.metrics import link_metrics, time_scores
from timeplex.evaluation.protocol import PUBLISHED_CODE
from timeplex.evaluation.ranking import DirectedScorer, LinkPrediction
from timeplex.kb import spans
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.kb.split import split_randomly
from timeplex.models.scorer import DIRECTIONS
from timeplex.patterns.base import Evidence, LinkQueries, TimeQueries
from timeplex.patterns.dating import DateModel
from timeplex.patterns.ranking import LinkModel
from timeplex.typing import Floats, Ints

ROOT = Path(__file__).parents[1]
WHO, SHARES = ("limit", "learner", "ours"), ("share", "share of learner")


@dataclass(frozen=True)
class _Bayes(DirectedScorer):
    """The posterior as a scorer; equal ones in an order by chance."""

    world: World
    instants: Ints
    chance: np.random.Generator

    def rows(self, direction: Any, given: Any, r: Any, span: Any) -> Any:
        begin, names = self.instants[span[0].numpy()], [str(name) for name in self.world.kb.relations]
        rows = [
            self.world.answers(int(x), names[int(each)], int(at), direction)
            for x, each, at in zip(given.tolist(), r.tolist(), begin.tolist(), strict=True)
        ]
        scores = np.log(np.maximum(np.stack(rows), 1e-300))
        return torch.from_numpy(scores + 1e-6 * self.chance.random(scores.shape))


@dataclass(frozen=True)
class _Patterns(DirectedScorer):
    model: LinkModel
    instants: Ints

    def rows(self, direction: Any, given: Any, r: Any, span: Any) -> Any:
        directed = r.numpy() + (self.model.evidence.relations if direction == "subject" else 0)
        begin = self.instants[span[0].numpy()]
        queries = LinkQueries(given.numpy(), directed, begin, np.full(len(begin), spans.OPEN_END))
        return torch.from_numpy(self.model.scores(queries))


def _ranks(kb: TemporalKB, scorer: DirectedScorer) -> dict[str, Floats]:
    task = LinkPrediction(kb, kb.test, kb.timeline("calendar"), PUBLISHED_CODE, [PUBLISHED_CODE.filter])
    return {each: task.ranks(scorer, each)[PUBLISHED_CODE.filter] for each in DIRECTIONS}


def measured(facts: int, seed: int) -> dict[str, Any]:
    """One world: the limit, a learner that knows its form, ours, and the share; for dates and entities, by relation."""
    kb = split_randomly(generate(facts, seed), seed=seed)
    relations, seen = [str(name) for name in kb.relations], len(kb.train) / len(kb)
    closed, instants = kb.test[kb.test.closed], kb.timeline("calendar").instants
    dates, links = {}, {}
    for name, known in (("limit", World), ("learner", Learner)):
        world = known(kb, kb.train, seen=seen)
        dates[name] = time_scores(closed.span, _best_spans(world, closed, relations))["aeiou@1"]
        links[name] = _ranks(kb, _Bayes(world, instants, np.random.default_rng(0)))
    when = DateModel.fit(Evidence.of(kb))
    dates["ours"] = time_scores(closed.span, when.spans(TimeQueries.of(closed)))["aeiou@1"]
    links["ours"] = _ranks(kb, _Patterns(LinkModel.fit(kb, asks="begin"), instants))
    reciprocal = {name: np.concatenate([1 / of[each] for each in DIRECTIONS]) for name, of in links.items()}
    return {
        "facts": facts,
        "seed": seed,
        "dates": _share(dates, closed.r, relations),
        "entities": _share(reciprocal, np.tile(kb.test.r, len(DIRECTIONS)), relations),
        "hits@10": {name: link_metrics(np.concatenate(list(of.values())))["hits@10"] for name, of in links.items()},
    }


def _best_spans(world: World, facts: Facts, relations: Sequence[str]) -> tuple[Ints, ...]:
    said = [
        best_span(world.span(int(s), relations[int(r)], int(o)), world.first)
        for s, r, o in zip(facts.s, facts.r, facts.o, strict=True)
    ]
    return tuple(np.array(each)[:, None] for each in zip(*said, strict=True))


def _share(scores: dict[str, Floats], r: Ints, relations: Sequence[str]) -> dict[str, Any]:
    limit, learner, ours = (scores[name] for name in WHO)
    draws = np.random.default_rng(0).integers(len(limit), size=(1000, len(limit)))
    by = {
        relations[each]: [*(float(scores[name][r == each].mean()) for name in WHO), int((r == each).sum())]
        for each in np.unique(r)
    }
    found: dict[str, Any] = {name: float(scores[name].mean()) for name in WHO}
    for name, best in (("share", limit), ("share of learner", learner)):
        found[name] = float(ours.mean() / best.mean())
    for name, best in (("95 %", limit), ("95 % of learner", learner)):
        shares = ours[draws].mean(1) / best[draws].mean(1)
        found[name] = [float(each) for each in np.quantile(shares, [0.025, 0.975])]
    return found | {"questions": len(limit), "by relation: limit, learner, ours, questions": by}


def main() -> None:
    """Measure worlds, and record them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--facts", type=int, default=5_000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "results" / "limit.json")
    options = parser.parse_args()
    worlds = [measured(options.facts, seed) for seed in range(options.seeds)]
    found = {
        "command": f"python -m tools.measure_limit --facts {options.facts} --seeds {options.seeds}",
        "date": date.today().isoformat(),
        "metrics": {"dates": "aeiou@1", "entities": "mrr, published-code"},
        **{
            task: {key: float(np.mean([each[task][key] for each in worlds])) for key in (*WHO, *SHARES)}
            for task in ("dates", "entities")
        },
        "worlds": worlds,
    }
    options.output.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
