"""The paper's figures: what they show of a run, as JSON, and drawing that as PNG and SVG.

distance      mean distance of time embeddings by the gap between them (figure 2)
across-time   Pr(t | s, r, o) of two births by three models (figure 3 and the plots of appendix J)
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from timeplex.datasets.benchmarks import BENCHMARKS
from timeplex.evaluation.plots import Curve, Distances, FactAcrossTime, Years, across_time_picture, distance_picture
from timeplex.kb.dates import Granularity
from timeplex.reproduce.plan import FIGURES, MODELS, Cell
from timeplex.reproduce.records import Results, Values

if TYPE_CHECKING:
    from timeplex.training.run import TrainedRun

YEARS: dict[str, Years] = {"wikidata12k": (1984, 2020), "yago11k": (1958, 2017)}
"""The windows of figure 2."""

BIRTHS = (("Shin_Ae-ra", "wasBornIn", "South_Korea"), ("Peter_Nowell", "wasBornIn", "Philadelphia"))
"""The facts of figure 3 and of appendix J."""

WINDOW: Years = (1850, 2010)
SUFFIXES = (".png", ".svg")


def shows(name: str, found: Values, cell: Cell) -> bool:
    """Whether the figure shows the run already."""
    if name == "distance":
        return cell.dataset in found
    return bool(found) and all(cell.model in fact["curves"] for fact in found.values())


def with_run(name: str, found: Values, cell: Cell, run: "TrainedRun") -> Values:
    """What the figure shows, with one more run."""
    if name == "distance":
        return {**found, cell.dataset: _distances(run, YEARS[cell.dataset])}
    return {" ".join(fact): _birth(found.get(" ".join(fact)), fact, cell, run) for fact in BIRTHS}


def _distances(run: "TrainedRun", years: Years) -> Values:
    from timeplex.evaluation.diagnostics import time_distances

    seen = time_distances(run.model, run.timeline, years)
    return {
        "years": list(years),
        "granularity": str(seen.granularity),
        "gap": seen.gap.tolist(),
        "distance": seen.distance.tolist(),
        "pairs": seen.pairs.tolist(),
    }


def _birth(before: Values | None, fact: tuple[str, str, str], cell: Cell, run: "TrainedRun") -> Values:
    from timeplex.evaluation.diagnostics import across_time

    kb = run.kb
    s, r, o = kb.entities.id(fact[0]), kb.relations.id(fact[1]), kb.entities.id(fact[2])
    device = next(run.model.parameters()).device
    curve = across_time({"it": (run.scorer, run.timeline)}, (s, r, o), WINDOW, device)["it"]
    stated = (kb.facts.s == s) & (kb.facts.r == r) & (kb.facts.o == o)
    gold = next([int(begin), int(end)] for *_, begin, end in kb.facts[stated])
    values = {
        "granularity": str(curve.granularity),
        "instants": curve.instants.tolist(),
        "probability": curve.probability.tolist(),
    }
    return {"gold": gold, "curves": {**(before or {"curves": {}})["curves"], cell.model: values}}


# Drawing --------------------------------------------------------------------------------------------------------------


def draw(results: Results, folder: Path) -> list[str]:
    """Draw every figure of which something is recorded, as PNG and SVG; their names."""
    drawn = []
    for name in FIGURES:
        found = results.read(f"figures/{name}")
        if found:
            for suffix in SUFFIXES:
                _draw(name, found, folder / f"{name}{suffix}")
            drawn.append(name)
    return drawn


def _draw(name: str, found: Values, path: Path) -> None:
    if name == "distance":
        panels = {_panel(dataset): _as_distances(found[dataset]) for dataset in YEARS if dataset in found}
        distance_picture(panels, path)
    else:
        across_time_picture([_as_fact(fact, values) for fact, values in found.items()], path, WINDOW)


def _panel(dataset: str) -> str:
    first, last = YEARS[dataset]
    return f"{BENCHMARKS[dataset].title}, {first}–{last}"


def _as_distances(values: Values) -> Distances:
    gap, pairs = (np.array(values[name], np.int64) for name in ("gap", "pairs"))
    return Distances(gap, np.array(values["distance"], np.float64), pairs, Granularity(values["granularity"]))


def _as_fact(name: str, values: Values) -> FactAcrossTime:
    models = [model for model in FIGURES["across-time"][1] if model in values["curves"]]
    curves = {MODELS[model]: _as_curve(values["curves"][model]) for model in models}
    begin, end = values["gold"]
    return FactAcrossTime(name.replace("_", " "), (begin, end), curves)


def _as_curve(values: Values) -> Curve:
    probability = np.array(values["probability"], np.float64)
    return Curve(np.array(values["instants"], np.int64), probability, Granularity(values["granularity"]))


def likeliest(curve: Values) -> int:
    """The year at which a recorded curve is highest."""
    top: Any = np.argmax(curve["probability"])
    return int(curve["instants"][int(top)])
