"""docs/results.md: the text of `results.md` in this package with the tables put in."""

import re
from importlib.resources import files
from pathlib import Path

from timeplex.files import write_whole
from timeplex.reproduce import tables
from timeplex.reproduce.plan import FIGURES, MODELS
from timeplex.reproduce.records import Results

NAME = "results.md"
PLACE = re.compile(r"^\[\[(\w+)(?: ([\w-]+))?\]\]$", re.MULTILINE)

OTHERS = {
    "missing": tables.missing,
    "significance": tables.significance,
    "births": tables.births,
    "provenance": tables.provenance,
}
"""What stands on the page beside the tables that can be asked for."""

ALT = {
    "distance": "Distance of time embeddings against the gap between them",
    "across-time": "Probability of two births over the years, by model",
}


def text(results: Results) -> str:
    """The page, from what is recorded."""
    template = files("timeplex.reproduce").joinpath(NAME).read_text(encoding="utf-8")
    makers = {**tables.ALL, **OTHERS}

    def put(place: re.Match[str]) -> str:
        kind, name = place.groups()
        return _figure(name, results) if kind == "figure" else makers[kind](results)

    return PLACE.sub(put, template)


def _figure(name: str, results: Results) -> str:
    """The picture, once something of it is recorded, and whose part is missing."""
    found = results.read(f"figures/{name}")
    shown = f"![{ALT[name]}](figures/{name}.png)\n\n[The same as SVG](figures/{name}.svg)." if found else ""
    datasets, models = FIGURES[name]
    if name == "distance":
        absent = [tables.title(dataset) for dataset in datasets if dataset not in (found or {})]
    else:
        curves = [fact["curves"] for fact in (found or {}).values()]
        absent = [MODELS[model] for model in models if not curves or any(model not in each for each in curves)]
    lacking = f"Not there yet: {', '.join(absent)} (`timeplex reproduce --figure {name}`)." if absent else ""
    return "\n\n".join(part for part in (shown, lacking) if part)


def write(results: Results, docs: Path) -> Path:
    """Write the page into the folder of documents."""
    path = docs / NAME
    write_whole(path, text(results).encode())
    return path
