"""No test here leaves a model behind in the registry; laws of small tables are tried with one thread."""

from collections.abc import Iterator

import pytest
from tests.registry import registry

__all__ = ["one_thread", "registry"]


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Tables of a few numbers: a second thread only costs, and on a busy machine much."""
    import torch  # which the laws of readers do not need

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
