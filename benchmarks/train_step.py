"""One TimePlex training step against the matrix products it cannot avoid, and against a plain implementation.

    python benchmarks/train_step.py [--rounds 9] [--json]

The step has both sides, the full softmax over YAGO11k's 10,623 entities, the time term, L2, batch 1500, dimension 200.
The products are the scores and the gradients of both factors, for each side, at the same precision. The plain
implementation does the same work and follows the published formula: separate real and imaginary tables, three products
a side, CrossEntropyLoss, dense Adagrad.
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

from timeplex.evaluation.ranking import PlacedFacts
from timeplex.models.base import Space
from timeplex.models.timeplex import Options, TimePlex
from timeplex.training.batches import Batches
from timeplex.training.experiment import multiply_adds, units
from timeplex.training.experiment import precision as choose_precision
from timeplex.training.objective import Objective, dense_optimizer
from timeplex.training.recipe import Recipe

sys.path.insert(0, str(Path(__file__).parent))
from common import arguments, peak_rss_mb, show, side_by_side

ENTITIES, RELATIONS, INSTANTS, BATCH, DIMENSION = 10_623, 10, 380, 1500, 200


def our_step(precision: torch.dtype):  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    s, o = rng.integers(0, ENTITIES, (2, BATCH))
    facts = PlacedFacts(s, rng.integers(0, RELATIONS, BATCH), o, *([rng.integers(0, INSTANTS, BATCH)] * 2))
    recipe = Recipe(inverse=False, batch_size=BATCH, time_weight=0.5, l2=0.03)
    model = TimePlex(Space.plain(ENTITIES, RELATIONS, INSTANTS), Options(dimension=DIMENSION))
    optimizer = dense_optimizer(list(model.parameters()), recipe)
    objective = Objective(model, recipe, RELATIONS, precision)
    batches = Batches(facts, recipe)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        objective(batches.batch(0, 0, torch.device("cpu"))).backward()
        optimizer.step()
        model.after_step()

    return step


def products(precision: torch.dtype):  # type: ignore[no-untyped-def]
    query = torch.randn(BATCH, 2 * DIMENSION).to(precision)
    table = torch.randn(ENTITIES, 2 * DIMENSION).to(precision)
    scores = torch.randn(BATCH, ENTITIES).to(precision)

    def run() -> None:
        for _ in range(2):
            query @ table.T
            scores @ table
            scores.T @ query

    return run


class Plain(nn.Module):
    """The published formula, term by term, with real and imaginary parts in tables of their own."""

    def __init__(self) -> None:
        super().__init__()
        sizes = {"e": ENTITIES, "so": RELATIONS, "st": RELATIONS, "ot": RELATIONS, "t": INSTANTS}
        for name, rows in sizes.items():
            for part in ("re", "im"):
                table = nn.Embedding(rows, DIMENSION)
                nn.init.normal_(table.weight, std=0.05)
                setattr(self, f"{name}_{part}", table)

    def look_up(self, name: str, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return getattr(self, f"{name}_re")(rows), getattr(self, f"{name}_im")(rows)

    def all_entities(self, re: torch.Tensor, im: torch.Tensor) -> torch.Tensor:
        return re @ self.e_re.weight.T + im @ self.e_im.weight.T

    def objects(self, s: torch.Tensor, r: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        (s_re, s_im), (t_re, t_im) = self.look_up("e", s), self.look_up("t", t)
        (so_re, so_im), (ot_re, ot_im) = self.look_up("so", r), self.look_up("ot", r)
        st_re, st_im = self.look_up("st", r)
        first = self.all_entities(s_re * so_re - s_im * so_im, s_re * so_im + s_im * so_re)
        second = ((s_re * st_re - s_im * st_im) * t_re + (s_re * st_im + s_im * st_re) * t_im).sum(1, keepdim=True)
        third = self.all_entities(t_re * ot_re - t_im * ot_im, t_re * ot_im + t_im * ot_re)
        fourth = self.all_entities(s_re * t_re - s_im * t_im, s_re * t_im + s_im * t_re)
        return first + 5 * second + 5 * third + 5 * fourth

    def subjects(self, r: torch.Tensor, o: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        (o_re, o_im), (t_re, t_im) = self.look_up("e", o), self.look_up("t", t)
        (so_re, so_im), (st_re, st_im) = self.look_up("so", r), self.look_up("st", r)
        ot_re, ot_im = self.look_up("ot", r)
        first = self.all_entities(so_re * o_re + so_im * o_im, so_re * o_im - so_im * o_re)
        second = self.all_entities(st_re * t_re + st_im * t_im, st_re * t_im - st_im * t_re)
        third = ((t_re * ot_re - t_im * ot_im) * o_re + (t_re * ot_im + t_im * ot_re) * o_im).sum(1, keepdim=True)
        fourth = self.all_entities(t_re * o_re + t_im * o_im, t_re * o_im - t_im * o_re)
        return first + 5 * second + 5 * third + 5 * fourth

    def times(self, s: torch.Tensor, r: torch.Tensor, o: torch.Tensor) -> torch.Tensor:
        (s_re, s_im), (o_re, o_im) = self.look_up("e", s), self.look_up("e", o)
        (so_re, so_im), (st_re, st_im) = self.look_up("so", r), self.look_up("st", r)
        ot_re, ot_im = self.look_up("ot", r)

        def all_instants(re: torch.Tensor, im: torch.Tensor) -> torch.Tensor:
            return re @ self.t_re.weight.T + im @ self.t_im.weight.T

        first = ((s_re * so_re - s_im * so_im) * o_re + (s_re * so_im + s_im * so_re) * o_im).sum(1, keepdim=True)
        second = all_instants(s_re * st_re - s_im * st_im, s_re * st_im + s_im * st_re)
        third = all_instants(ot_re * o_re + ot_im * o_im, ot_re * o_im - ot_im * o_re)
        fourth = all_instants(s_re * o_re + s_im * o_im, s_re * o_im - s_im * o_re)
        return first + 5 * second + 5 * third + 5 * fourth


def plain_step():  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    model = Plain()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
    loss = nn.CrossEntropyLoss()
    s, o = torch.randint(0, ENTITIES, (2, BATCH))
    r, t = torch.randint(0, RELATIONS, (BATCH,)), torch.randint(0, INSTANTS, (BATCH,))

    def step() -> None:
        optimizer.zero_grad()
        total = loss(model.objects(s, r, t), o) + loss(model.subjects(r, o, t), s)
        total = total + 0.5 * loss(model.times(s, r, o), t)
        for name, rows in (("e", s), ("e", o), ("so", r), ("st", r), ("ot", r), ("t", t)):
            total = total + 0.03 * sum(part.square().sum() for part in model.look_up(name, rows)) / BATCH
        total.backward()
        optimizer.step()
        with torch.no_grad():
            for part in (model.t_re, model.t_im):
                part.weight /= part.weight.norm(dim=1, keepdim=True)

    return step


def main() -> None:
    parser = arguments(__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only-steps", type=int, help="do so many of our steps and print the peak memory")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = TimePlex(Space.plain(ENTITIES, RELATIONS, INSTANTS), Options(dimension=DIMENSION))
    size = multiply_adds(model, BATCH, ENTITIES)
    precision = choose_precision("auto", units(torch.device("cpu")), size).dtype
    if options.only_steps:
        step = our_step(precision)
        for _ in range(options.only_steps):
            step()
        print(peak_rss_mb())
        return
    ours, gemm, plain = side_by_side(our_step(precision), products(precision), plain_step(), rounds=options.rounds)
    memory = subprocess.run(
        [sys.executable, __file__, "--only-steps", "3"], check=True, capture_output=True, text=True
    ).stdout
    show(
        {
            "precision": str(precision).removeprefix("torch."),
            "threads": options.threads,
            "step_seconds": ours,
            "gemm_seconds": gemm,
            "plain_seconds": plain,
            "step_over_gemm": ours / gemm,
            "speedup_over_plain": plain / ours,
            "step_peak_rss_mb": float(memory),
        },
        options.json,
    )


if __name__ == "__main__":
    main()
