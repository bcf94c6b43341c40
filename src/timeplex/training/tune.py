"""Searching for settings on dev with Optuna. The ranges stand beside the fields of the recipe and of the model.

Every finished trial is a line of `trials-….jsonl` in the folder of the search, which is all that it needs to go on
where it was cut off. Test facts are never looked at.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np

from timeplex.errors import DamagedError, DivergedError, InputError
from timeplex.files import locked, make_folder, to_json, write_whole
from timeplex.kb.facts import TemporalKB
from timeplex.models.loading import model_class
from timeplex.training.checkpoint import Stopped
from timeplex.training.loop import Trainer
from timeplex.training.recipe import Recipe

Search = Literal["all", "paper"]
How = Literal["default", "random", "grid"]


@dataclass(frozen=True)
class Trial:
    """One try: what was set and what came of it."""

    number: int
    settings: dict[str, Any]
    mrr: float


def ranges(recipe: Recipe) -> dict[str, dict[str, Any]]:
    """The fields that have a range, by key; those of the model as `options.name`."""
    own = {key: field.json_schema_extra for key, field in Recipe.model_fields.items()}
    options = model_class(recipe.model).options_type.model_fields
    own |= {f"options.{key}": field.json_schema_extra for key, field in options.items()}
    return {key: extra["tune"] for key, extra in own.items() if isinstance(extra, dict) and "tune" in extra}  # type: ignore[misc]


def tune(
    kb: TemporalKB,
    recipe: Recipe,
    trials: int,
    folder: Path,
    search: Search = "all",
    on_progress: Callable[[Trial], None] | None = None,
) -> Recipe:
    """Search until there are `trials` finished trials in the folder; the best recipe is returned and written.

    `all` searches all ranges at once by Optuna's default sampler. `paper` is the paper's way in two stages: the first
    half of the trials are a random search over the training settings, the second half a search over the grid of the
    model's weights with the best of the first half.
    """
    optuna = _optuna()
    free = ranges(recipe)
    make_folder(folder)
    with locked(folder):
        if search == "paper":
            first = {key: space for key, space in free.items() if not key.startswith("options.")}
            second = {key: space for key, space in free.items() if key.startswith("options.")}
            best = _stage(optuna, kb, recipe, trials - trials // 2, folder, "first", first, "random", on_progress)
            if second and trials // 2:
                best = _stage(optuna, kb, best, trials // 2, folder, "second", second, "grid", on_progress)
        else:
            best = _stage(optuna, kb, recipe, trials, folder, "all", free, "default", on_progress)
        write_whole(folder / "best.json", best.model_dump_json(indent=1).encode())
    return best


def _optuna() -> Any:
    try:
        import optuna
    except ImportError as error:
        raise InputError("Optuna is not installed.", "Install it with: pip install timeplex[tune]") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _stage(
    optuna: Any,
    kb: TemporalKB,
    recipe: Recipe,
    trials: int,
    folder: Path,
    name: str,
    free: dict[str, dict[str, Any]],
    how: How,
    on_progress: Callable[[Trial], None] | None,
) -> Recipe:
    """One search over some ranges, around a recipe."""
    file = folder / f"trials-{name}.jsonl"
    done = _read(file)
    ways = {key: _distribution(optuna, key, space, recipe) for key, space in free.items()}
    study = optuna.create_study(direction="maximize")
    for trial in done:
        study.add_trial(optuna.trial.create_trial(params=trial.settings, distributions=ways, value=trial.mrr))
    grid = _grid(free, recipe.seed) if how == "grid" else None
    for number in range(len(done), trials if grid is None else min(trials, len(grid))):
        study.sampler = _sampler(optuna, how, recipe.seed, number)
        if grid is not None:
            study.enqueue_trial(grid[number])
        asked = study.ask(ways)
        trainer = Trainer(kb, recipe.with_settings(asked.params))
        mrr = _dev_mrr(trainer)
        study.tell(asked, mrr)
        done.append(Trial(number, dict(asked.params), mrr))
        lines = "".join(to_json({"stage": name, **vars(each)}) + "\n" for each in done)
        write_whole(file, lines.encode())
        if on_progress is not None:
            on_progress(done[-1])
        if trainer.stop_asked:  # when nothing of this trial was left to stop
            raise Stopped(trainer.stop_signal)
    return recipe.with_settings(max(done, key=lambda trial: trial.mrr).settings)


def _dev_mrr(trainer: Trainer) -> float:
    """What a recipe reaches on dev; one that diverges is as bad as can be, and the search goes on."""
    try:
        return float(trainer.fit()["dev"].get("mrr", 0.0))
    except DivergedError:
        return 0.0


def _read(file: Path) -> list[Trial]:
    """The trials that were finished before."""
    try:
        lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        return [Trial(int(line["number"]), dict(line["settings"]), float(line["mrr"])) for line in lines]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedError(f"{file} cannot be read.", "Mend or delete it, or choose another -o.") from error


def _sampler(optuna: Any, how: How, seed: int, number: int) -> Any:
    """What a trial draws from depends on its number and those before it, so a search that was cut off goes on alike."""
    own = int(np.random.SeedSequence((seed, number)).generate_state(1)[0])
    return optuna.samplers.TPESampler(seed=own) if how == "default" else optuna.samplers.RandomSampler(seed=own)


def _grid(free: dict[str, dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """All choices with each other, in an order by chance."""
    every = [dict(zip(free, values, strict=True)) for values in product(*(space["choices"] for space in free.values()))]
    return [every[at] for at in np.random.default_rng(seed).permutation(len(every))]


def _distribution(optuna: Any, key: str, space: dict[str, Any], recipe: Recipe) -> Any:
    if "choices" in space:
        return optuna.distributions.CategoricalDistribution(space["choices"])
    if isinstance(recipe.model_dump()[key], int):
        return optuna.distributions.IntDistribution(int(space["low"]), int(space["high"]), log=True)
    return optuna.distributions.FloatDistribution(space["low"], space["high"], log=True)
