"""JSON that every reader understands: no NaN, no Infinity, in no file and no answer."""

import ast
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timeplex.files import to_json

ROOT = Path(__file__).parents[1]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


def strictly(text: str) -> Any:
    """As a reader that keeps to the standard."""
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


def same_but_null(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_but_null(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(same_but_null(*pair) for pair in zip(one, other, strict=True))
    return other is None if isinstance(one, float) and not math.isfinite(one) else one == other


@settings(max_examples=60)
@given(VALUES)
def test_what_is_not_finite_is_null_and_the_rest_stays(value: Any) -> None:
    assert same_but_null(value, strictly(to_json(value)))
    assert same_but_null(value, strictly(to_json(value, indent=1, ensure_ascii=False)))


def test_there_is_one_way_to_write_json() -> None:
    for path in sorted((ROOT / "src").rglob("*.py")):
        if path.name == "files.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "json":
                assert node.attr not in ("dump", "dumps", "JSONEncoder"), f"{path}:{node.lineno}: use files.to_json"
