"""A KB in which one can tell who was born where, with three wrong births, and a run on it: made once a session."""

from dataclasses import replace
from functools import lru_cache

import numpy as np
import polars as pl
from tests.builders import trained_run

import timeplex
from timeplex.answers.trained import Trained
from timeplex.kb.facts import TemporalKB

CITIES = ("Bern", "Cork", "Lima", "Oslo", "Pisa", "Riga")
PEOPLE = 180
WRONG = {3: "Riga", 47: "Lima", 122: "Cork"}


def city(person: int) -> str:
    return CITIES[person % len(CITIES)]


def towns() -> dict[str, list[tuple[str, str, str, str, str]]]:
    """People who are born, live and work in one city; a third of the births is held back, three of them are wrong."""
    splits: dict[str, list[tuple[str, str, str, str, str]]] = {"train": [], "valid": [], "test": []}
    held = set(range(0, PEOPLE, 3)) | set(WRONG)
    for person in range(PEOPLE):
        for place, relation in enumerate(("bornIn", "livesIn", "worksIn")):
            split = "train" if place or person not in held else ("valid", "test")[person % 2]
            where = WRONG.get(person, city(person)) if place == 0 else city(person)
            date = str(1900 + 20 * place)
            splits[split].append((f"person {person:03}", relation, where, date, date))
    return splits


def as_kb(splits: dict[str, list[tuple[str, str, str, str, str]]]) -> TemporalKB:
    columns = ["subject", "relation", "object", "begin", "end"]
    kb = timeplex.read(pl.DataFrame([row for part in splits.values() for row in part], schema=columns, orient="row"))
    stops = np.cumsum([len(part) for part in splits.values()]).tolist()
    assert len(kb) == stops[-1]
    parts = zip(splits, [0, *stops], stops, strict=False)
    return replace(kb, splits={split: kb.facts[start:stop] for split, start, stop in parts}, name="towns")


@lru_cache
def town_run() -> Trained:
    settings = ["--set", "epochs=60", "--set", "options.dimension=32", "--set", "batch_size=50"]
    folder = trained_run(as_kb(towns()), "run", "--model", "timeplex-base", *settings)
    return timeplex.load(folder, device="cpu")
