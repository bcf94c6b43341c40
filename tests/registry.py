"""The registry as it was, after tests that add to it."""

from collections.abc import Iterator

import pytest

from timeplex.models import MODELS


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """No test leaves a model behind."""
    before = dict(MODELS)
    yield
    MODELS.clear()
    MODELS.update(before)
