"""The true posterior of what a made-up world does not show: `World`, of `timeplex.datasets.synthetic`.

Everything is computed from some of the facts and from the distributions that the world was drawn from. The Bayes answer
knows everything about the world but who married whom: a couple is known by its marriage alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from timeplex.datasets.synthetic import DEFAULT_WORLD, SyntheticSpec, Years
from timeplex.kb import spans
from timeplex.kb.facts import Facts, TemporalKB
from timeplex.typing import Floats, Ints

LOCAL = {"bornIn": "places", "diedIn": "places", "studiedAt": "schools", "worksFor": "employers"}
"""What each relation of persons asks for that communities have of their own."""
KEPT = 8
"""So many lives are kept in memory, at 2 MB each."""
MASS = 1e-5
"""Begins, and ends, that are less likely than this are left out when the best span is looked for."""


@dataclass
class Person:
    """What train says of a person: dates by relation, jobs in order; and what it tells of the home."""

    born: int | None = None
    died: int | None = None
    prize: int | None = None
    studies: tuple[int, int] | None = None
    wedding: tuple[int, int] | None = None
    spouse: int | None = None
    jobs: tuple[tuple[int, int], ...] = ()


@dataclass
class Posterior:
    """What is known of a person's life: unnormalised, over years of the axis.

    birth_death   (years, years)          w(B, D), with what the spouse and the career say of both
    career        (3, years, years)       w(J, B, work): the number of jobs, birth, and begin of the first job
    total         the sum of all
    """

    birth_death: Floats
    career: Floats
    total: float


class World:
    """The posterior of everything in a synthetic world, given `facts`, a share of `seen` of all that is told."""

    def __init__(self, kb: TemporalKB, facts: Facts, world: SyntheticSpec = DEFAULT_WORLD, seen: float = 0.8) -> None:
        self.kb, self.world, self.hidden = kb, world, 1 - seen
        self.first = world.wedding_year.first - world.wedding_age.last
        self.size = world.wedding_year.last + world.life.last - world.wedding_age.first + 2 - self.first
        names = [str(name).rsplit(" ", 1) for name in kb.entities]
        self.kind = np.array([kind for kind, _ in names])
        self.number = np.array([int(number) for _, number in names])
        self.relation = {str(name): at for at, name in enumerate(kb.relations)}
        self.facts, self.people = facts, self._people(facts)
        self.steps = {name: self._step(getattr(world, name)) for name in ("wedding_age", "life", "school_age", "prize")}
        self.kept: dict[tuple[int, str], Posterior] = {}
        self.series: dict[int, tuple[dict[int, Floats], Floats]] = {}

    def _people(self, facts: Facts) -> dict[int, Person]:
        people = {int(each): Person() for each in np.flatnonzero(self.kind == "person")}
        single = {"bornIn": "born", "diedIn": "died", "wonPrize": "prize"}
        names = {at: name for name, at in self.relation.items()}
        columns = (facts.s, facts.r, facts.o, facts.begin, facts.end)
        for s, r, o, b, e in zip(*(column.tolist() for column in columns), strict=True):
            name, person = names[r], people.get(s)
            if person is None:
                continue
            if name in single:
                setattr(person, single[name], b)
            elif name == "studiedAt":
                person.studies = (b, e)
            elif name == "worksFor":
                person.jobs = (*person.jobs, (b, e))
            elif name == "marriedTo":
                for one, other in ((s, o), (o, s)):
                    people[one].wedding, people[one].spouse = (b, e), other
        for person in people.values():
            person.jobs = tuple(sorted(person.jobs))
        return people

    def _step(self, of: Years) -> Floats:
        """P(later | earlier) for a step of a life: (years, years)."""
        return self._table(of.first, of.chances)

    def _table(self, first: int, chances: Sequence[float]) -> Floats:
        table = np.zeros((self.size, self.size))
        for k, chance in enumerate(chances):
            table += chance * np.eye(self.size, k=first + k)
        return table

    def at(self, year: int) -> Floats:
        """Certainty of a year: (years,); nothing if it is beyond the axis."""
        there = np.zeros(self.size)
        if 0 <= year - self.first < self.size:
            there[year - self.first] = 1
        return there

    # Lives ------------------------------------------------------------------------------------------------------------

    @cached_property
    def _jobs_given_ages(self) -> Floats:
        """P(number of jobs | B, D): (3, years, years)."""
        world, year = self.world, np.arange(self.size)
        age = np.minimum(year[None] + self.first, world.last_year) - (year[:, None] + self.first)
        fitting = (age - world._work_age.last + world.pause.last) // (world.job.last + world.pause.last)
        wanted = np.arange(world.jobs.first, world.jobs.last + 1)
        found = np.zeros((world.jobs.last, self.size, self.size))
        for number, chance in zip(wanted, world.jobs.chances, strict=True):
            for jobs in range(1, world.jobs.last + 1):
                found[jobs - 1] += chance * (np.minimum(fitting, number) == jobs)
        return found

    @cached_property
    def _study_wait(self) -> Floats:
        return self._table(self.world.wait.first, self.world.wait.chances)

    @cached_property
    def _study(self) -> Floats:
        return self._table(self.world.study.first, self.world.study.chances)

    @cached_property
    def _job(self) -> Floats:
        return self._table(self.world.job.first, self.world.job.chances)

    @cached_property
    def _pause(self) -> Floats:
        return self._table(self.world.pause.first, self.world.pause.chances)

    @cached_property
    def _birth_to_work(self) -> Floats:
        return self.steps["school_age"] @ self._study @ self._study_wait

    def to_work(self, person: Person) -> Floats:
        """P(work, and the studies as they are seen | B): (years, years)."""
        if person.studies is None:
            return self._birth_to_work
        begin, end = (year - self.first for year in person.studies)
        chance = self.steps["school_age"][:, begin] * self._study[begin, end]
        return chance[:, None] * self._study_wait[end][None]

    def prize(self, person: Person) -> Floats:
        """P(the prize as it is seen | work): (years,)."""
        if person.prize is None:
            return np.ones(self.size)
        return self.steps["prize"][:, person.prize - self.first]

    def _assignments(self, person: Person, number: int) -> list[tuple[int, ...]]:
        """Which of so many jobs are which of the seen ones: −1 for hidden, in the order of time."""
        found: list[tuple[int, ...]] = []

        def place(done: tuple[int, ...], next_seen: int) -> None:
            if len(done) == number:
                if next_seen == len(person.jobs):
                    found.append(done)
                return
            place((*done, -1), next_seen)
            if next_seen < len(person.jobs):
                place((*done, next_seen), next_seen + 1)

        place((), 0)
        return found

    def _onward(self, person: Person, which: tuple[int, ...], closed_at: int = -1) -> list[tuple[Floats, Floats]]:
        """For each job of an assignment: P(it and what is seen after it | its begin), and P(what is after | its end).

        `closed_at`: the hidden job whose end is known to be told.
        """
        world, after, found = self.world, np.ones(self.size), []
        for at in range(len(which) - 1, -1, -1):
            is_last, seen = at == len(which) - 1, which[at]
            told = 1 - world.open_job if is_last else 1.0
            if seen < 0:
                weight = self.hidden * (told if at == closed_at else 1.0)
                begun = weight * (self._job @ after)
            else:
                begin, end = person.jobs[seen]
                begun = (1 - self.hidden) * self.at(begin)
                if end == spans.OPEN_END:
                    begun = begun * (world.open_job * (self._job @ after)[begin - self.first] if is_last else 0.0)
                else:
                    begun = begun * told * self._job[begin - self.first, end - self.first] * after[end - self.first]
            found.append((begun, after))
            after = self._pause @ begun
        return found[::-1]

    def _careers(self, person: Person, asked: bool) -> Floats:
        """P(what is seen of the jobs | number of jobs, work): (3, years)."""
        share, many = self.world.worked, self.world.jobs.last
        found = np.zeros((many, self.size))
        for number in range(1, many + 1):
            if person.jobs or asked:
                for which in self._assignments(person, number):
                    found[number - 1] += share * self._onward(person, which)[0][0]
            else:
                found[number - 1] = 1 - share + share * self.hidden**number
        return found

    def _alone(self, person: Person, asked: str) -> tuple[Floats, Floats, Floats]:
        """Of B and D what the own facts say but for the career, (years, years); (3, years, years); their product."""
        world = self.world
        told = np.arange(self.size) + self.first <= world.last_year
        if person.died is not None:
            death = self.at(person.died)
        elif asked == "diedIn":
            death = told.astype(float)
        else:
            death = np.where(told, 1 - world.died * (1 - self.hidden), 1.0)
        birth = np.ones(self.size) if person.born is None else self.at(person.born)
        plain = birth[:, None] * self.steps["life"] * death
        careers = self._careers(person, asked == "worksFor") * self.prize(person)
        work = self.to_work(person)
        career = careers[:, None] * work[None]
        return plain, career, plain * np.einsum("jbd,jb->bd", self._jobs_given_ages, career.sum(2))

    def _wedding(self) -> Floats:
        years = self.world.wedding_year
        chance = np.zeros(self.size)
        chance[years.first - self.first : years.last - self.first + 1] = years.chances
        return chance

    def _marriage(self, wedding: int, end: int) -> Floats:
        """P(a marriage of that year ends as it is told | the first death): (years,)."""
        world, first = self.world, np.arange(self.size) + self.first
        divorced = world.divorced * (wedding + world.divorce.last < np.minimum(first, world.last_year + 1))
        if end == spans.OPEN_END:
            return (1 - divorced) * (first > world.last_year)
        length = end - wedding - world.divorce.first
        chance = world.divorce.chances[length] if 0 <= length < len(world.divorce.chances) else 0.0
        return divorced * chance + (1 - divorced) * (first == end) * (first <= world.last_year)

    def life(self, who: int, asked: str = "") -> Posterior:
        """The posterior of a person's life, given that a fact of the relation `asked` is told and not seen."""
        key = (who, asked)
        if key in self.kept:
            return self.kept[key]
        person = self.people[who]
        plain, career, both = self._alone(person, asked)
        age = self.steps["wedding_age"]
        if person.wedding is None or person.spouse is None:
            factor = (age * self._wedding()).sum(1)[:, None]
        else:
            wedding, end = person.wedding
            at = wedding - self.first
            other = age[:, at] @ self._alone(self.people[person.spouse], "")[2]  # over the death of the other
            first = self._marriage(wedding, end)
            tail = np.append(np.cumsum(other[::-1])[::-1], 0)[1:]
            factor = age[:, at][:, None] * (np.cumsum(other * first) + first * tail)[None]
        plain = plain * factor
        by_number = np.einsum("bd,jbd->jb", plain, self._jobs_given_ages)
        career = career * by_number[:, :, None]
        found = Posterior(both * factor, career, float(career.sum()))
        if len(self.kept) >= KEPT:
            self.kept.clear()
        self.kept[key] = found
        return found

    # Dates ------------------------------------------------------------------------------------------------------------

    def span(self, s: int, r: str, o: int) -> Floats:
        """The posterior over (begin, end) of a fact that is told with both its ends and not seen: (years, years)."""
        if r in ("heldIn", "wins"):
            years = self.editions(s, o) if r == "heldIn" else self.editions(o, None)
            return np.diag(years / max(years.sum(), 1e-300))
        if r == "marriedTo":
            found = self._married(s, o)
        elif r == "studiedAt":
            found = self._studied(s)
        elif r == "worksFor":
            found = self._worked(s)
        else:
            found = np.diag(self.begins(s, r))
        return found / max(found.sum(), 1e-300)

    def begins(self, who: int, r: str) -> Floats:
        """How likely a hidden fact of a person begins in each year, its being told included: (years,).

        For jobs the expected number of hidden ones.
        """
        person, world = self.people[who], self.world
        if r == "bornIn":
            life = self.life(who)
            return life.birth_death.sum(1) / life.total if person.born is None else np.zeros(self.size)
        if r == "diedIn":
            if person.died is not None:
                return np.zeros(self.size)
            life = self.life(who, r)
            return world.died * self.hidden * life.birth_death.sum(0) / self.life(who).total
        if r == "wonPrize":
            life = self.life(who)
            share = world.honoured * self.hidden / (1 - world.honoured * (1 - self.hidden))
            by_work = life.career.sum((0, 1)) / life.total
            return share * (by_work @ self.steps["prize"]) if person.prize is None else np.zeros(self.size)
        if r == "studiedAt":
            share = world.studied * self.hidden / (1 - world.studied * (1 - self.hidden))
            found = self._studied(who).sum(1) if person.studies is None else np.zeros(self.size)
            return share * found / max(found.sum(), 1e-300)
        return self._worked(who, closed=False).sum(1) / self.life(who).total

    def _studied(self, who: int) -> Floats:
        person, life = self.people[who], self.life(who)
        whole = self.to_work(person)
        ratio = np.divide(life.career.sum(0), whole, out=np.zeros_like(whole), where=whole > 0)  # (birth, work)
        # Σ_B P(begin | B) P(end | begin) Σ_work P(work | end) ratio(B, work)
        return self._study * (self.steps["school_age"].T @ (ratio @ self._study_wait.T))

    def _worked(self, who: int, closed: bool = True) -> Floats:
        """Over the spans of all hidden jobs, as many as there may be: unnormalised, in the units of `life(who)`."""
        person, life = self.people[who], self.life(who, "worksFor")
        careers = self._careers(person, True) * self.prize(person)
        by_work = life.career.sum(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            before = np.where(careers > 0, by_work / careers, 0) * self.prize(person) * self.world.worked
        found = np.zeros((self.size, self.size))
        for number in range(1, self.world.jobs.last + 1):
            for which in self._assignments(person, number):
                for at in range(number):
                    if which[at] >= 0:
                        continue
                    onward = self._onward(person, which, at if closed else -1)
                    begin = before[number - 1]
                    for earlier in range(at):
                        begin = self._through(person, which[earlier], begin) @ self._pause
                    told = 1 - self.world.open_job if closed and at == number - 1 else 1.0
                    found += self.hidden * told * begin[:, None] * self._job * onward[at][1][None]
        return found

    def _through(self, person: Person, seen: int, begin: Floats) -> Floats:
        """Over the end of a job that is not the last: (years,)."""
        if seen < 0:
            return self.hidden * (begin @ self._job)
        b, e = person.jobs[seen]
        if e == spans.OPEN_END:
            return np.zeros(self.size)
        chance = begin[b - self.first] * self._job[b - self.first, e - self.first]
        return (1 - self.hidden) * chance * self.at(e)

    def _married(self, s: int, o: int) -> Floats:
        person = self.people[s]
        if person.wedding is not None and person.spouse == o:
            begin, end = person.wedding
            return np.outer(self.at(begin), self.at(end))
        age, world = self.steps["wedding_age"], self.world
        deaths = [age.T @ self._alone(self.people[who], "")[2] for who in (s, o)]  # (wedding, death)
        later = [np.cumsum(each[:, ::-1], 1)[:, ::-1] for each in deaths]
        both = later[0] * later[1]
        first = both - np.pad(both, ((0, 0), (0, 1)))[:, 1:]
        found = np.zeros((self.size, self.size))
        for at in np.flatnonzero(self._wedding()):
            wedding = at + self.first
            for end in range(wedding, min(world.last_year, self.first + self.size - 1) + 1):
                found[at, end - self.first] = self._wedding()[at] * (first[at] @ self._marriage(wedding, end))
        return found

    # Games ------------------------------------------------------------------------------------------------------------

    def editions(self, game: int, city: int | None) -> Floats:
        """How likely each year has a hidden edition in that city, or one whose winner is hidden (no city): (years,)."""
        return self.hosts(game)[city].copy() if city is not None else self._series(game)[1]

    def hosts(self, game: int) -> dict[int, Floats]:
        """By city: how likely each year has a hidden edition of the series there; (years,) each."""
        return self._series(game)[0]

    def _series(self, game: int) -> tuple[dict[int, Floats], Floats]:
        if game in self.series:
            return self.series[game]
        world, places = self.world, np.flatnonzero(self.kind == "place")
        held = (self.facts.s == game) & (self.facts.r == self.relation["heldIn"])
        won = (self.facts.o == game) & (self.facts.r == self.relation["wins"])
        seen = dict(zip(self.facts.begin[held].tolist(), self.number[self.facts.o[held]].tolist(), strict=True))
        winners = set(self.facts.begin[won].tolist())
        cities = int(self.number[places].max()) + 1 if len(places) else 1
        of_number = dict(zip(self.number[places].tolist(), places.tolist(), strict=True))
        popular = Years.popularity(cities).chances
        starts = {number - back for number in seen.values() for back in range(world.hosts)} or set(range(cities))
        found: dict[int, Floats] = {each: np.zeros(self.size) for each in places.tolist()}
        hidden_wins, total = np.zeros(self.size), 0.0
        for period in dict.fromkeys(world.periods):
            for phase in range(period):
                years = range(world.first_games + phase, world.last_year + 1, period)
                if not (set(seen) | winners) <= set(years):
                    continue
                for start in starts:
                    host = {y: (start % cities + k % world.hosts) % cities for k, y in enumerate(years)}
                    if any(host[y] != number for y, number in seen.items()):
                        continue
                    weight = world.periods.count(period) / period * popular[start % cities]
                    weight *= self.hidden ** (2 * len(years))
                    total += weight
                    for y in years:
                        if y not in seen and host[y] in of_number:
                            found[of_number[host[y]]][y - self.first] += weight
                        if y not in winners:
                            hidden_wins[y - self.first] += weight
        scale = 1 / total if total else 0.0
        self.series[game] = {each: years * scale for each, years in found.items()}, hidden_wins * scale
        return self.series[game]

    # Entities ---------------------------------------------------------------------------------------------------------

    @cached_property
    def communities(self) -> int:
        """How many communities there are, as far as places show."""
        return int(self.number[self.kind == "place"].max(initial=0) // self.world.places) + 1

    @cached_property
    def homes(self) -> Floats:
        """Where persons are at home: (entities, communities)."""
        log = np.zeros((len(self.kind), self.communities))
        for name, kind in LOCAL.items():
            rows = self.facts.r == self.relation[name]
            chance = self.chosen(kind, self.facts.o[rows])
            np.add.at(log, self.facts.s[rows], np.log(chance))
        together = log.copy()
        for who, person in self.people.items():
            if person.spouse is not None:
                together[who] += log[person.spouse]
        found = np.exp(together - together.max(1, keepdims=True))
        return found / found.sum(1, keepdims=True)

    def chosen(self, kind: str, entities: Ints) -> Floats:
        """P(the entity is chosen among places, schools or employers | home): (n, communities)."""
        world, number, each = self.world, self.number[entities], int(getattr(self.world, kind))
        anywhere = np.array(Years.popularity(each * self.communities).chances)
        here = np.array(Years.popularity(each).chances)[number % each]
        at_home = (number[:, None] // each) == np.arange(self.communities)
        return world.local * at_home * here[:, None] + (1 - world.local) * anywhere[number][:, None]

    def prizes(self) -> Floats:
        """How often each prize is won, up to a factor: (entities,)."""
        return np.where(self.kind == "prize", 1 / (self.number + 1.5), 0)

    def winners(self, game: int) -> Floats:
        """How likely each team wins an edition of a series: (entities,)."""
        teams = self.world.teams
        mine = (self.kind == "team") & (self.number // teams == self.number[game])
        return np.where(mine, np.array(Years.popularity(teams).chances)[self.number % teams], 0)

    def games_of(self, team: int) -> Floats:
        """Which series a team takes part in: (entities,)."""
        return ((self.kind == "games") & (self.number == self.number[team] // self.world.teams)).astype(float)

    @cached_property
    def rates(self) -> dict[str, Floats]:
        """`begins` of everybody: (entities, years) by relation."""
        found = {}
        for name in ("bornIn", "diedIn", "studiedAt", "worksFor", "wonPrize"):
            found[name] = np.zeros((len(self.kind), self.size))
            for who in self.people:
                found[name][who] = self.begins(who, name)
        return found

    @cached_property
    def weddings(self) -> Floats:
        """How likely everybody's wedding was in each year, but for the spouse; of those whose spouse is known, 0."""
        found = np.zeros((len(self.kind), self.size))
        for who, person in self.people.items():
            if person.spouse is None:
                chance = self.life(who).birth_death.sum(1) / self.life(who).total
                # Pr(birth) includes the years in which a wedding can be; P(wedding | birth) ∝ age · year.
                step = self.steps["wedding_age"] * self._wedding()
                step = step / np.maximum(step.sum(1, keepdims=True), 1e-300)
                found[who] = chance @ step
        return found

    def answers(self, x: int, r: str, begin: int, direction: str) -> Floats:
        """The posterior of every entity in (x, r, ?) or (?, r, x) from `begin` on, up to a factor: (entities,)."""
        year = begin - self.first
        scores = np.zeros(len(self.kind))
        if r == "marriedTo":
            person = self.people[x]
            if person.spouse is not None:
                scores[person.spouse] = 1
            else:
                scores = self.weddings[:, year] * (self.homes @ self.homes[x])
                scores[x] = 0
        elif r == "heldIn":
            if direction == "object":
                for city, years in self.hosts(x).items():
                    scores[city] = years[year]
            else:
                for game in np.flatnonzero(self.kind == "games"):
                    scores[game] = self.hosts(int(game))[x][year]
        elif r == "wins":
            scores = self.games_of(x) if direction == "object" else self.winners(x)
        elif direction == "object":
            if r == "wonPrize":
                scores = self.prizes()
            else:
                some = np.flatnonzero(self.kind == LOCAL[r].removesuffix("s"))
                scores[some] = self.chosen(LOCAL[r], some) @ self.homes[x]
        else:
            scores = self.rates[r][:, year].copy()
            if r != "wonPrize":
                scores *= self.homes @ self.chosen(LOCAL[r], np.array([x]))[0]
        return scores


def best_span(posterior: Floats, first: int) -> tuple[int, int]:
    """The span with the highest expected aeIOU under a posterior over (begin, end), (years, years)."""
    b, e = np.nonzero(posterior > MASS * posterior.max())
    mass = posterior[b, e]
    most = np.argsort(-mass, kind="stable")[:1500]
    b, e, mass = b[most], e[most], mass[most]
    begins, ends = np.unique(b), np.unique(e)
    low, high = (each.ravel() for each in np.meshgrid(begins, ends, indexing="ij"))
    low, high = low[low <= high], high[low <= high]
    worth = np.empty(len(low))
    for at in range(0, len(low), 512):
        some, other = low[at : at + 512, None], high[at : at + 512, None]
        shared = np.minimum(other, e) - np.maximum(some, b) + 1
        worth[at : at + 512] = (np.maximum(shared, 1) / (np.maximum(other, e) - np.minimum(some, b) + 1)) @ mass
    best = int(worth.argmax())
    return int(low[best]) + first, int(high[best]) + first
