"""Searching for settings on dev with Optuna. The ranges stand beside the fields of the recipe and of the model.

The search is kept in a journal in its folder, so that it goes on where it was cut off; every trial is also a line of
`trials.jsonl`. Test facts are never looked at.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from timeplex.errors import DivergedError, InputError
from timeplex.files import to_json, write_whole
from timeplex.kb.facts import TemporalKB
from timeplex.models.loading import model_class
from timeplex.training.loop import Trainer
from timeplex.training.recipe import Recipe, parse

Search = Literal["all", "paper"]


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
    listener: Callable[[Trial], None] | None = None,
) -> Recipe:
    """Search until there are `trials` finished trials in the folder; the best recipe is returned and written.

    `all` searches all ranges at once by Optuna's default sampler. `paper` is the paper's way in two stages: the first
    half of the trials are a random search over the training settings, the second half a search over the grid of the
    model's weights with the best of the first half.
    """
    optuna = _optuna()
    folder.mkdir(parents=True, exist_ok=True)
    free = ranges(recipe)
    if search == "paper":
        first = {key: space for key, space in free.items() if not key.startswith("options.")}
        second = {key: space for key, space in free.items() if key.startswith("options.")}
        best = _stage(optuna, kb, recipe, trials - trials // 2, folder, "first", first, "random", listener)
        if second and trials // 2:
            best = _stage(optuna, kb, best, trials // 2, folder, "second", second, "grid", listener)
    else:
        best = _stage(optuna, kb, recipe, trials, folder, "all", free, "default", listener)
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
    how: str,
    listener: Callable[[Trial], None] | None,
) -> Recipe:
    """One search over some ranges, around a recipe."""
    seed = recipe.seed
    samplers: dict[str, Callable[[], Any]] = {
        "default": lambda: optuna.samplers.TPESampler(seed=seed),
        "random": lambda: optuna.samplers.RandomSampler(seed=seed),
        "grid": lambda: optuna.samplers.GridSampler({key: space["choices"] for key, space in free.items()}, seed=seed),
    }
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(folder / "journal.log")))
    study = optuna.create_study(
        study_name=name, storage=storage, sampler=samplers[how](), direction="maximize", load_if_exists=True
    )

    def objective(trial: Any) -> float:
        settings = {key: _suggest(trial, key, space, recipe) for key, space in free.items()}
        try:
            metrics = Trainer(kb, with_values(recipe, settings)).fit()
        except DivergedError:
            return 0.0  # as bad as can be; the search goes on
        return float(metrics["dev"].get("mrr", 0.0))

    def report(study: Any, trial: Any) -> None:
        done = [_trial(each) for each in study.trials if each.value is not None]
        lines = "".join(to_json({"stage": name, **vars(each)}) + "\n" for each in done)
        write_whole(folder / f"trials-{name}.jsonl", lines.encode())
        if listener is not None:
            listener(_trial(trial))

    finished = sum(trial.value is not None for trial in study.trials)
    if finished < trials:
        study.optimize(objective, n_trials=trials - finished, callbacks=[report])
    return with_values(recipe, study.best_params)


def _trial(trial: Any) -> Trial:
    return Trial(trial.number, dict(trial.params), float(trial.value))


def _suggest(trial: Any, key: str, space: dict[str, Any], recipe: Recipe) -> Any:
    if "choices" in space:
        return trial.suggest_categorical(key, space["choices"])
    if isinstance(recipe.model_dump()[key], int):
        return trial.suggest_int(key, int(space["low"]), int(space["high"]), log=True)
    return trial.suggest_float(key, space["low"], space["high"], log=True)


def with_values(recipe: Recipe, settings: dict[str, Any]) -> Recipe:
    """The recipe with some settings; `options.x` is a setting of the model."""
    values = recipe.model_dump()
    for key, value in settings.items():
        if key.startswith("options."):
            values["options"][key.removeprefix("options.")] = value
        else:
            values[key] = value
    return parse(values, "search")
