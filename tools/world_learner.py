"""A learner that is told the form of a made-up world, and must estimate its numbers from the train facts.

The posterior of `World` knows distributions and communities that no learner can know exactly from some thousand facts.
`Learner` answers by the same formulas, with what it finds instead:

    years       histograms of train facts, smoothed: (cases + 20 · Laplace(2)) / (n + 20), on the range that is told
    homes       a mixture of `communities` groups of households over places, schools and employers, by EM
    teams       in which series, and how often, each has won; how often each prize was won

It is told which steps a life has, which range each takes, the shares of what happens and of what is told, and how
many communities there are. Its figures are no upper bound: a cleverer learner may be better. But what lies between it
and the true posterior is what such a number of facts does not tell easily.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy.cluster.vq import kmeans2
from tools.world_posterior import LOCAL, World

from timeplex.datasets.synthetic import DEFAULT_WORLD, SyntheticSpec, Years
from timeplex.kb import spans
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.typing import Bools, Floats, Ints

SMOOTH_CASES, SMOOTH_SCALE = 20.0, 2.0
STARTS, ROUNDS = 20, 60
"""EM starts so often, and goes on for so many rounds; the best likelihood is taken."""
POPULAR = 2.0
"""What is not seen in a community is as likely there as if it had been seen so many times in all, by popularity."""


def estimated(told: Years, seen: Floats, weight: Floats | None = None) -> Years:
    """A distribution on the range of `told` from values that were seen, each with a weight."""
    weight = np.ones(len(seen)) if weight is None else weight
    inside = (seen >= told.first) & (seen <= told.last)
    size = len(told.chances)
    counts = np.bincount(seen[inside].astype(int) - told.first, weight[inside], size)
    kernel = np.exp(-np.abs(np.arange(size)[:, None] - np.arange(size)) / SMOOTH_SCALE)
    smooth = (counts + 1 / size) @ (kernel / kernel.sum(1, keepdims=True))
    return Years.weighted(told.first, counts + SMOOTH_CASES * smooth / smooth.sum())


def learned_spec(people: World) -> SyntheticSpec:
    """The distributions of years as the facts of a world show them."""
    world, persons = people.world, list(people.people.values())

    def gaps(pairs: list[tuple[int | None, int | None]]) -> Floats:
        return np.array([later - earlier for earlier, later in pairs if earlier is not None and later is not None])

    weddings = [each.wedding[0] for each in persons if each.wedding is not None]
    wedding_age = gaps([(each.born, each.wedding and each.wedding[0]) for each in persons])
    found = replace(
        world,
        wedding_year=estimated(world.wedding_year, np.array(weddings)),
        wedding_age=estimated(world.wedding_age, wedding_age),
    )
    lives = gaps([(each.born, each.died) for each in persons])
    # Longer lives end after the last year more often, and are missing then.
    missing = 1 / np.maximum(found.birth.chance_by(world.last_year - lives), 0.05)
    studies = [each.studies for each in persons if each.studies is not None]
    closed = [job for each in persons for job in each.jobs if job[1] != spans.OPEN_END]
    follow = [(one[1], two[0]) for each in persons for one, two in zip(each.jobs, each.jobs[1:], strict=False)]
    first = [(each, each.jobs[0][0]) for each in persons if each.jobs]
    ended = [each.wedding for each in persons if each.wedding is not None and each.wedding[1] != spans.OPEN_END]
    return replace(
        found,
        life=estimated(world.life, lives, missing),
        school_age=estimated(world.school_age, gaps([(p.born, p.studies and p.studies[0]) for p in persons])),
        study=estimated(world.study, np.array([end - begin for begin, end in studies])),
        wait=estimated(world.wait, gaps([(p.studies and p.studies[1], begin) for p, begin in first])),
        job=estimated(world.job, np.array([end - begin for begin, end in closed])),
        pause=estimated(world.pause, gaps([pair for pair in follow if pair[0] != spans.OPEN_END])),
        prize=estimated(world.prize, gaps([(begin, p.prize) for p, begin in first])),
        divorce=estimated(world.divorce, np.array([end - begin for begin, end in ended])),
    )


class Learner(World):
    """`World` with estimates for what the facts must tell; see the module."""

    def __init__(self, kb: TemporalKB, facts: Facts, world: SyntheticSpec = DEFAULT_WORLD, seen: float = 0.8) -> None:
        super().__init__(kb, facts, learned_spec(World(kb, facts, world, seen)), seen)

    @cached_property
    def _households(self) -> Ints:
        """Everybody's household: couples that are known to be married have one, (entities,)."""
        found = np.arange(len(self.kind))
        for who, person in self.people.items():
            if person.spouse is not None:
                found[who] = min(who, person.spouse)
        return found

    @cached_property
    def _mixture(self) -> tuple[Floats, Floats]:
        """(where everybody is at home (entities, communities), P(entity | home) of each within its kind, likewise)."""
        local = [self.relation[name] for name in LOCAL]
        rows = np.isin(self.facts.r, local)
        house, target = self._households[self.facts.s[rows]], self.facts.o[rows].astype(np.int64)
        kinds = [kind.removesuffix("s") for kind in dict.fromkeys(LOCAL.values())]
        groups = [self.kind == kind for kind in kinds]
        popular = np.bincount(target, minlength=len(self.kind)) + 0.5
        for group in groups:
            popular[group] /= popular[group].sum()
        best: tuple[float, Floats, Floats] = (-np.inf, np.empty(0), np.empty(0))
        for homes in self._begun(house, target):
            for _ in range(ROUNDS):
                chosen = self._choices(homes, house, target, popular, groups)
                homes, likelihood = self._at_home(chosen, homes, house, target)
            if likelihood > best[0]:
                best = likelihood, homes, chosen
        return best[1][self._households], best[2]

    def _begun(self, house: Ints, target: Ints) -> Iterator[Floats]:
        """First guesses: groups of households that have to do with the same entities."""
        (there, house), (seen, target) = (np.unique(each, return_inverse=True) for each in (house, target))
        table = np.zeros((len(there), len(seen)))
        np.add.at(table, (house, target), 1)
        left, strength, _ = np.linalg.svd(table / np.sqrt(table.sum(1)[:, None] * table.sum(0)), full_matrices=False)
        places = (left * strength)[:, : self.communities]
        for seed in range(STARTS):
            _, group = kmeans2(places, self.communities, seed=seed, minit="++")
            homes = np.full((len(self.kind), self.communities), 0.1)
            homes[there, group] += 1
            yield homes / homes.sum(1, keepdims=True)

    def _choices(self, homes: Floats, house: Ints, target: Ints, popular: Floats, groups: Sequence[Bools]) -> Floats:
        counts = np.zeros_like(homes)
        np.add.at(counts, target, homes[house])
        here = np.zeros_like(homes)
        for group in groups:
            mine = counts[group] + POPULAR * popular[group, None]
            here[group] = mine / mine.sum(0)
        return here

    def _at_home(self, chosen: Floats, homes: Floats, house: Ints, target: Ints) -> tuple[Floats, float]:
        share = homes[np.unique(house)].mean(0)
        log = np.tile(np.log(share), (len(self.kind), 1))
        np.add.at(log, house, np.log(chosen[target]))
        most = log.max(1, keepdims=True)
        total = np.exp(log - most).sum(1, keepdims=True)
        return np.exp(log - most) / total, float((most + np.log(total))[np.unique(house)].sum())

    @property
    def homes(self) -> Floats:  # type: ignore[override]
        """Where persons are at home by the mixture: (entities, communities)."""
        return self._mixture[0]

    def chosen(self, kind: str, entities: Ints) -> Floats:
        """P(entity | home) by the mixture: (n, communities)."""
        return self._mixture[1][entities]

    @cached_property
    def _wins(self) -> tuple[Ints, Ints]:
        rows = self.facts.r == self.relation["wins"]
        return self.facts.s[rows].astype(np.int64), self.facts.o[rows].astype(np.int64)

    def prizes(self) -> Floats:
        """How often each prize was won, and a half: (entities,)."""
        won = self.facts.o[self.facts.r == self.relation["wonPrize"]]
        return np.where(self.kind == "prize", np.bincount(won, minlength=len(self.kind)) + 0.5, 0)

    def winners(self, game: int) -> Floats:
        """How often each team has won the series, and a little: (entities,)."""
        team, of = self._wins
        strangers = (self.kind == "team") & (np.bincount(team, minlength=len(self.kind)) == 0)
        return np.bincount(team[of == game], minlength=len(self.kind)) + 0.01 * strangers

    def games_of(self, team: int) -> Floats:
        """The series that a team has won, or all alike: (entities,)."""
        teams, games = self._wins
        mine = np.bincount(games[teams == team], minlength=len(self.kind)).astype(float)
        return mine if mine.any() else (self.kind == "games").astype(float)
