"""What all models share: spans as sums, the space, complex numbers stored real."""

from collections.abc import Callable

import pytest
import torch
from pydantic import ValidationError
from tests.models.tables import near

from timeplex.models import Options, Space
from timeplex.models.base import enumerate_spans, sum_by_query
from timeplex.models.query_vector import dot, multiply, multiply_conjugate

Product = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def test_every_instant_of_every_span_is_told_with_its_query() -> None:
    query, t = enumerate_spans((torch.tensor([2, 0, 5]), torch.tensor([4, 0, 6])))
    assert query.tolist() == [0, 0, 0, 1, 2, 2]
    assert t.tolist() == [2, 3, 4, 0, 5, 6]


def test_no_span_has_no_instants() -> None:
    query, t = enumerate_spans((torch.tensor([], dtype=torch.long), torch.tensor([], dtype=torch.long)))
    assert (len(query), len(t)) == (0, 0)


def test_rows_are_summed_by_query() -> None:
    values = torch.tensor([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]])
    # Rows 0 and 2 belong to query 1, row 1 to query 0, and query 2 has none.
    assert near(sum_by_query(values, torch.tensor([1, 0, 1]), 3), [[2, 20], [5, 50], [0, 0]])


def test_a_plain_space_has_consecutive_years() -> None:
    space = Space.plain(entities=3, relations=2, instants=2)
    assert space.dates.tolist() == [[1900, 0, 0], [1901, 0, 0]]
    assert (space.instants, space.mentions.tolist()) == (2, [1, 1])


def test_complex_numbers_stored_real() -> None:
    a, b = torch.tensor([1.0, 3.0, 2.0, 4.0]), torch.tensor([5.0, 0.0, -1.0, 1.0])  # (1 + 2i, 3 + 4i), (5 − i, i)
    # (1 + 2i)(5 − i) = 5 − i + 10i + 2 = 7 + 9i;   (3 + 4i) i = −4 + 3i
    assert near(multiply(a, b), [7, -4, 9, 3])
    # (1 − 2i)(5 − i) = 5 − i − 10i − 2 = 3 − 11i;   (3 − 4i) i = 4 + 3i
    assert near(multiply_conjugate(a, b), [3, 4, -11, 3])
    # Re ⟨a, b̄⟩ = Re (1 + 2i)(5 + i) + Re (3 + 4i)(−i) = 3 + 4
    assert near(dot(a, b), 7)


@pytest.mark.parametrize("product", [multiply, multiply_conjugate])
@pytest.mark.parametrize("shapes", [((3, 4), (3, 4)), ((3, 1, 4), (1, 2, 4)), ((4,), (3, 4))])
def test_gradients_of_products_are_those_of_differences(product: Product, shapes: tuple[tuple[int, ...], ...]) -> None:
    torch.manual_seed(0)
    a, b = (torch.randn(shape, dtype=torch.double, requires_grad=True) for shape in shapes)
    assert torch.autograd.gradcheck(product, (a, b))


def test_an_unknown_option_is_an_error() -> None:
    with pytest.raises(ValidationError, match="dimensions"):
        Options(dimensions=3)  # type: ignore[call-arg]
