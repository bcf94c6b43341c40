"""TA by hand: the tokens of a date, an LSTM against its equations, and the scorers on what it says."""

from dataclasses import replace
from math import exp, tanh

import pytest
import torch
from tests.models.tables import facts, near

from timeplex.models import Space
from timeplex.models.ta import TA, TOKENS, Options, date_tokens, first_alike


def years(*numbers: int) -> torch.Tensor:
    return torch.tensor([(number, 0, 0) for number in numbers])


def test_tokens_of_years() -> None:
    # The sign is token 40 or 41; digit d at place p is 10 p + d: 1952 → 1, 10 + 9, 20 + 5, 30 + 2; 405 → 0, 14, 20, 35.
    assert date_tokens(years(1952, -405)).tolist() == [[40, 1, 19, 25, 32], [41, 0, 14, 20, 35]]
    assert date_tokens(years(0)).tolist() == [[40, 0, 10, 20, 30]]


def test_tokens_of_months_and_days() -> None:
    # May is 42 + 4; 13 is 54 + 1 and 64 + 3.
    day = torch.tensor([(2014, 5, 13), (2015, 12, 9)])
    assert date_tokens(day).tolist() == [[40, 2, 10, 21, 34, 46, 55, 67], [40, 2, 10, 21, 35, 53, 54, 73]]
    assert date_tokens(torch.tensor([(2014, 5, 0)])).tolist() == [[40, 2, 10, 21, 34, 46]]


def test_every_date_has_tokens_of_its_own_within_the_table() -> None:
    dates = torch.tensor([(year, month, day) for year in (-1, 0, 1, 9999) for month in (1, 12) for day in (1, 10, 31)])
    tokens = date_tokens(dates)
    assert len(torch.unique(tokens, dim=0)) == len(dates)
    assert tokens.min() >= 0
    assert tokens.max() < TOKENS


ENTITY = [[1.0, 2.0], [3.0, -1.0], [0.0, 4.0]]


def made(options: Options, dates: torch.Tensor) -> TA:
    """A model whose entities are set by hand; the rest is for the test to set."""
    torch.manual_seed(0)
    model = TA(replace(Space.plain(3, 2, len(dates)), dates=dates), options).eval()
    with torch.no_grad():
        model.entity.copy_(torch.tensor(ENTITY))
    return model


# The LSTM


def sigmoid(x: float) -> float:
    return 1 / (1 + exp(-x))


def lstm_by_its_equations(words: list[list[float]], weights: dict[str, list[list[float]]], width: int) -> list[float]:
    """The last state: i, f, o = σ(W x + U h + b), g = tanh(W x + U h + b), c ← f c + i g, h ← o tanh c."""
    h, c = [0.0] * width, [0.0] * width
    for x in words:
        before = list(h)
        for k in range(width):
            gate = {}
            for number, name in enumerate("ifgo"):
                row = number * width + k
                from_word = sum(w * value for w, value in zip(weights["W"][row], x, strict=True))
                from_state = sum(u * value for u, value in zip(weights["U"][row], before, strict=True))
                gate[name] = from_word + from_state + weights["b"][0][row]
            c[k] = sigmoid(gate["f"]) * c[k] + sigmoid(gate["i"]) * tanh(gate["g"])
            h[k] = sigmoid(gate["o"]) * tanh(c[k])
    return h


def set_lstm(model: TA, weights: dict[str, list[list[float]]]) -> None:
    with torch.no_grad():
        model.lstm.weight_ih.copy_(torch.tensor(weights["W"]))
        model.lstm.weight_hh.copy_(torch.tensor(weights["U"]))
        model.lstm.bias_ih.copy_(torch.tensor(weights["b"][0]))
        model.lstm.bias_hh.zero_()


def test_the_relation_and_then_the_tokens_are_read_by_an_lstm() -> None:
    model = made(Options(dimension=2), years(1952, -405))
    weights = {
        "W": [[(row * 3 + column * 5) % 7 / 4 - 0.75 for column in range(2)] for row in range(8)],
        "U": [[(row * 2 + column * 3) % 5 / 4 - 0.5 for column in range(2)] for row in range(8)],
        "b": [[row % 3 / 2 - 0.5 for row in range(8)]],
    }
    set_lstm(model, weights)
    with torch.no_grad():
        model.token.copy_(torch.arange(2.0 * TOKENS).view(TOKENS, 2) % 11 / 5 - 1)
        model.relation.copy_(torch.tensor([[0.5, -1.0], [1.5, 2.0]]))
    token, relation = model.token.tolist(), model.relation.tolist()
    s, r, o, t = facts((0, 0, 1, 0), (1, 1, 2, 1), (0, 0, 1, 1))
    sequences = {0: [40, 1, 19, 25, 32], 1: [41, 0, 14, 20, 35]}
    expected = []
    for subject, which, object_, instant in zip(*(column.tolist() for column in (s, r, o, t)), strict=True):
        words = [relation[which], *(token[number] for number in sequences[instant])]
        h = lstm_by_its_equations(words, weights, 2)
        expected.append(sum(a * b * c for a, b, c in zip(ENTITY[subject], h, ENTITY[object_], strict=True)))
    assert near(model.score_at(s, r, o, t), expected)
    assert near(model.times(s, r, o)[0], [expected[0], expected[2]])


def test_dates_that_begin_alike_are_read_as_torch_reads_them_one_by_one() -> None:
    days = torch.tensor([(2014, 5, 13), (2014, 5, 19), (-14, 5, 13), (2014, 12, 13), (2015, 5, 13), (2014, 5, 3)])
    model = made(Options(dimension=2), days).double()
    torch.manual_seed(1)
    lstm = torch.nn.LSTM(2, 2, batch_first=True).double()
    lstm.load_state_dict({f"{name}_l0": table for name, table in model.lstm.state_dict().items()})
    r, t = (column.flatten() for column in torch.meshgrid(torch.arange(2), torch.arange(6), indexing="ij"))
    words = torch.cat([model.relation[r][:, None], model.token[date_tokens(days)[t]]], dim=1)
    with torch.no_grad():
        expected = lstm(words)[0][:, -1]
        torch.testing.assert_close(model.relation_vectors(r, t), expected)
        backwards = model.relation_vectors(r.flip(0), t.flip(0))
    torch.testing.assert_close(backwards.flip(0), expected)


def test_the_first_instant_that_begins_alike() -> None:
    # By the sign and the first digit all of 1952, 1957 and 1857 are alike; the second digit tells 1857, the last 1957.
    found = first_alike(date_tokens(years(1952, 1857, 1957)))
    assert found.tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 1, 0], [0, 1, 2]]


# The scorers, on an LSTM that forgets all but the last word


def made_forgetful(options: Options, last: list[float]) -> TA:
    """With i = 1, f = 0, o = 1 and g = tanh x the state is tanh(tanh(x)) of the last token, here of 1952's 2."""
    model = made(options, years(1952, 1957))
    width = len(last)
    open_, shut, zero = [40.0] * width, [-40.0] * width, [0.0] * width
    identity = torch.eye(width).tolist()
    nothing = [zero] * width
    set_lstm(
        model,
        {
            "W": [*nothing, *nothing, *identity, *nothing],
            "U": nothing * 4,
            "b": [[*open_, *shut, *zero, *open_]],
        },
    )
    with torch.no_grad():
        model.token[32] = torch.tensor(last)
        model.token[37] = torch.zeros(width)
    return model


A, B = tanh(tanh(1.0)), tanh(tanh(-2.0))
"""What it makes of the token (1, −2); of (0, 0) it makes (0, 0)."""


def test_distmult() -> None:
    model = made_forgetful(Options(dimension=2, scorer="distmult"), [1.0, -2.0])
    s, r, o, t = facts((0, 1, 1, 0))
    # 1 · a · 3 + 2 · b · (−1), and 0 in 1957
    assert near(model.times(s, r, o), [[3 * A - 2 * B, 0]])
    assert near(model.objects_at(s, r, t), [[A + 4 * B, 3 * A - 2 * B, 8 * B]])
    assert near(model.subjects_at(r, o, t), [[3 * A - 2 * B, 9 * A + B, -4 * B]])


@pytest.mark.parametrize("norm", [1, 2])
def test_transe(norm: int) -> None:
    model = made_forgetful(Options(dimension=2, scorer="transe", norm=norm), [1.0, -2.0])
    s, r, o, t = facts((0, 1, 1, 0))
    # e0 + h − e1 = (1 + a − 3, 2 + b + 1); in 1957 (−2, 3)
    distance = (abs(A - 2) ** norm + abs(B + 3) ** norm) ** (1 / norm)
    assert near(model.times(s, r, o), [[-distance, -((2**norm + 3**norm) ** (1 / norm))]])
    assert near(model.objects_at(s, r, t)[0, 1], -distance)
    assert near(model.subjects_at(r, o, t)[0, 0], -distance)


def test_complex() -> None:
    model = made_forgetful(Options(dimension=1, scorer="complex"), [1.0, -2.0])
    s, r, o, t = facts((0, 1, 1, 0))
    # (1 + 2i)(a + bi)(3 + i) = (1 + 7i)(a + bi) → a − 7b
    assert near(model.times(s, r, o), [[A - 7 * B, 0]])
    # ē0: (1 + 2i)(1 − 2i)(a + bi) → 5a.   ē2 = −4i: (8 − 4i)(a + bi) → 8a + 4b.
    assert near(model.objects_at(s, r, t), [[5 * A, A - 7 * B, 8 * A + 4 * B]])
    # Subjects of e1: e1 10 (a + bi) → 10a;   e2 = 4i: 4i (3 + i)(a + bi) = (−4 + 12i)(a + bi) → −4a − 12b
    assert near(model.subjects_at(r, o, t), [[A - 7 * B, 10 * A, -4 * A - 12 * B]])


def test_a_span_is_a_sum() -> None:
    model = made_forgetful(Options(dimension=2), [1.0, -2.0])
    s, r, o, first, last = facts((0, 0, 1, 0, 1), (0, 0, 1, 1, 1))
    assert near(model.score(s, r, o, (first, last)), [3 * A - 2 * B, 0])


def test_parameters() -> None:
    # d (|E| + |R| + tokens), and the LSTM's four gates, each with two d × d matrices and two biases.
    space = Space.plain(entities=11, relations=3, instants=7)
    assert TA(space, Options(dimension=5)).parameter_count == 5 * (11 + 3 + 74) + 4 * (2 * 5 * 5 + 2 * 5)
