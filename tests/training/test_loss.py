"""The hand-written gradient of the cross-entropy against autograd's, and the other losses by hand."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from timeplex.models.query_vector import QueryVector
from timeplex.training import objective


@pytest.mark.parametrize("rows", [1, 5, 700])  # 700: more than one block
def test_all_candidates_is_cross_entropy(rows: int) -> None:
    torch.manual_seed(0)
    query = torch.randn(rows, 6, requires_grad=True)
    table = torch.randn(11, 6, requires_grad=True)
    gold = torch.randint(0, 11, (rows,))
    ours = objective.all_candidates(QueryVector(query, table), gold, torch.float32)
    (3 * ours).backward()
    got = query.grad.clone(), table.grad.clone()
    query.grad = table.grad = None
    plain = cross_entropy(query @ table.T, gold)
    (3 * plain).backward()
    torch.testing.assert_close(ours, plain)
    torch.testing.assert_close(got, (query.grad, table.grad))


@pytest.mark.parametrize("rows", [1, 5, 700])
@pytest.mark.parametrize("norm", [None, 2])
def test_weighed_candidates_are_cross_entropy_with_weights(rows: int, norm: int | None) -> None:
    torch.manual_seed(0)
    query, table = torch.randn(rows, 6, requires_grad=True), torch.randn(11, 6, requires_grad=True)
    gold, log_weight = torch.randint(0, 11, (rows,)), torch.randn(11)
    log_weight[3] = -torch.inf
    side = QueryVector(query, table, norm=norm)
    ours = objective.all_candidates(side, gold, torch.float32, log_weight)
    (3 * ours).backward()
    got = query.grad.clone(), table.grad.clone()
    query.grad = table.grad = None
    own = torch.nn.functional.one_hot(gold, 11).bool()
    plain = cross_entropy(torch.where(own, side.of_all(), side.of_all() + log_weight), gold)
    (3 * plain).backward()
    torch.testing.assert_close(ours, plain)
    torch.testing.assert_close(got, (query.grad, table.grad))


@pytest.mark.parametrize("weighed", [False, True])
def test_bfloat16_is_near(weighed: bool) -> None:
    torch.manual_seed(0)
    query, table, gold = torch.randn(50, 16), torch.randn(40, 16), torch.randint(0, 40, (50,))
    log_weight = torch.randn(40).index_fill(0, torch.tensor([3]), -torch.inf) if weighed else None
    exact = objective.all_candidates(QueryVector(query, table), gold, torch.float32, log_weight)
    near = objective.all_candidates(QueryVector(query, table), gold, torch.bfloat16, log_weight)
    assert near.dtype == torch.float32
    assert abs(exact - near) < 0.02 * exact


def test_distances_take_the_plain_way() -> None:
    query, table = torch.tensor([[0.0]]), torch.tensor([[1.0], [2.0]])
    side = QueryVector(query, table, norm=1)
    torch.testing.assert_close(
        objective.all_candidates(side, torch.tensor([0]), torch.float32),
        cross_entropy(torch.tensor([[-1.0, -2.0]]), torch.tensor([0])),
    )


def test_drawn_candidates_and_margin_by_hand() -> None:
    scores, others = torch.tensor([2.0]), torch.tensor([[1.0, 4.0]])
    chance = torch.tensor(2.0).exp() / torch.tensor([2.0, 1.0, 4.0]).exp().sum()
    torch.testing.assert_close(objective.drawn_candidates(scores, others), -chance.log())
    assert objective.margin(scores, others, 1.5).item() == 0.5 + 3.5


def test_regularizers_by_hand() -> None:
    factor = torch.tensor([[3.0, 4.0], [0.0, 0.0]])  # two facts; the complex numbers 3 + 4i and 0
    assert objective.squared([factor, factor]).item() == 25.0
    assert objective.cubed([factor]).item() == pytest.approx(125 / 2)
    time = torch.tensor([[0.0, 0.0], [3.0, 4.0], [3.0, 4.0]])
    assert objective.roughness(time, 3).item() == pytest.approx(125 / 2, rel=1e-5)
    assert objective.roughness(time[:1], 3).item() == 0
