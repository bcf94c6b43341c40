"""Labels for ids from a second file: `Q76<TAB>Barack Obama`, further columns are passed over."""

from pathlib import Path

from timeplex.errors import InputError
from timeplex.kb.readers.opening import file_bytes, shown

LABEL_FILES = {"entities": "entity_labels.tsv", "relations": "relation_labels.tsv"}
"""The label files that are looked for beside train, valid and test."""


def read_labels(path: Path) -> dict[str, str]:
    """Name → label. The first label of a name counts; lines without a label are passed over."""
    try:
        text = file_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{shown(path)} is not UTF-8 text.", "Give id, TAB, label, one a line.") from error
    labels: dict[str, str] = {}
    for line in text.split("\n"):
        name, tab, rest = line.rstrip("\r").partition("\t")
        label = rest.split("\t")[0]
        if tab and name and label:
            labels.setdefault(name, label)
    if not labels:
        raise InputError(f"{shown(path)} has no labels.", "Give id, TAB, label, one a line.")
    return labels
