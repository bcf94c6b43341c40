"""`timeplex tune KB`: search for settings on dev."""

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from timeplex.cli.options import (
    DATA_DIR_OPTION,
    JSON_OPTION,
    KB_ARGUMENT,
    LEARNED_MODEL_OPTION,
    SETTINGS_OPTION,
    to_learn_from,
)
from timeplex.cli.show import print_json, progress, say

if TYPE_CHECKING:
    from timeplex.training.tune import Trial


def tune(
    kb: str = KB_ARGUMENT,
    output: Path = typer.Option(..., "-o", "--output", metavar="DIR", help="Where the search is kept; it resumes."),
    trials: int = typer.Option(20, min=1, help="How many trials there are to be in all."),
    model: str | None = LEARNED_MODEL_OPTION,
    recipe: Path | None = typer.Option(None, help="A recipe by name, or a TOML file, to start from."),
    settings: list[str] = SETTINGS_OPTION,
    search: str = typer.Option("all", help="all: every range at once; paper: the paper's two stages."),
    data_dir: Path | None = DATA_DIR_OPTION,
    as_json: bool = JSON_OPTION,
) -> None:
    """Search for the settings that do best on dev. Cut off, the same command goes on.

    Example: timeplex tune sample --model complex --trials 10 -o search --set epochs=10
    """
    from timeplex import api
    from timeplex.errors import Stopped

    data = to_learn_from(kb, data_dir)
    bar = ExitStack()  # closed while a line is printed: on a terminal the two would write over each other

    def listen(trial: "Trial") -> None:
        bar.close()
        values = "  ".join(f"{key} {value:.4g}" for key, value in trial.settings.items())
        say(f"trial {trial.number + 1}: dev MRR {100 * trial.mrr:.2f}  {values}")
        bar.enter_context(progress("trying other settings"))

    bar.enter_context(progress("trying settings"))
    try:
        best = api.tune(
            data,
            output,
            trials=trials,
            model=model,
            recipe=recipe,
            settings=settings,
            search=search,
            on_progress=None if as_json else listen,
        )
    except (Stopped, KeyboardInterrupt) as stopped:  # the latter between two trials
        bar.close()
        say("Stopped. The same command goes on.")
        raise typer.Exit(stopped.code if isinstance(stopped, Stopped) else 130) from None
    finally:
        bar.close()
    if as_json:
        print_json({"best": best.model_dump(), "folder": str(output)})
        return
    say(f"The best recipe is in {output / 'best.json'}.")
