"""The generator keeps what it promises: exact sizes, sound lives, and the distributions that it states."""

import os
import subprocess
import sys
import time
from functools import cache
from itertools import permutations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from timeplex.datasets.synthetic import RELATIONS, SyntheticSpec, Years, generate
from timeplex.errors import InputError
from timeplex.kb import spans
from timeplex.kb.dates import Granularity
from timeplex.kb.facts import TemporalKB

PERSONAL = ("bornIn", "studiedAt", "worksFor", "wonPrize", "marriedTo", "diedIn")


@cache
def big() -> TemporalKB:
    """Enough facts for sharp statistics; every death is told, so that divorces can be told from deaths."""
    return generate(200_000, seed=3, world=SyntheticSpec(died=1.0))


def rows_of(kb: TemporalKB) -> pl.DataFrame:
    facts = kb.train
    columns = {"s": facts.s, "o": facts.o, "begin": facts.begin, "end": facts.end}
    return pl.DataFrame(columns).with_columns(r=kb.relations.names.gather(facts.r))


def of(kb: TemporalKB, relation: str) -> pl.DataFrame:
    return rows_of(kb).filter(pl.col("r") == relation).drop("r")


def first(kb: TemporalKB, relation: str) -> pl.DataFrame:
    """The begin of each subject's first fact of the relation."""
    return of(kb, relation).group_by("s").agg(pl.col("begin").min().alias(relation))


def check(values: np.ndarray, stated: Years) -> None:
    """The mean within four standard errors, the sd within 3 %, and the Kolmogorov-Smirnov distance."""
    assert len(values) > 1000
    assert abs(values.mean() - stated.mean) < 4 * stated.sd / np.sqrt(len(values))
    assert values.std() == pytest.approx(stated.sd, rel=0.03)
    observed = np.searchsorted(np.sort(values), stated.values, side="right") / len(values)
    assert np.abs(observed - stated.chance_by(stated.values)).max() < 1.95 / np.sqrt(len(values))
    assert stated.first <= values.min() <= values.max() <= stated.last


# Distributions of years


def test_years_by_hand() -> None:
    coin = Years(0, (0.5, 0.5))
    assert (coin.mean, coin.sd) == (0.5, 0.5)
    assert coin + coin == Years(0, (0.25, 0.5, 0.25))
    assert -(coin + coin) == Years(-2, (0.25, 0.5, 0.25))
    assert (coin - coin).mean == 0
    assert (coin + coin).chance_by([-1, 0, 1, 2, 9]).tolist() == [0, 0.25, 0.75, 1, 1]


def test_years_shapes() -> None:
    normal = Years.normal(28, 5, 8, 48)
    assert (normal.mean, normal.sd) == (pytest.approx(28), pytest.approx(5, rel=0.01))
    assert Years.geometric(0.5, 1, 3).chances == pytest.approx((4 / 7, 2 / 7, 1 / 7))
    assert Years.uniform(1900, 1901) == Years(1900, (0.5, 0.5))
    assert Years.popularity(3).chances == pytest.approx((np.log(2) / np.log(4), np.log(1.5) / np.log(4), 0.2075187))


@pytest.mark.parametrize("chances", [(), (0.5, 0.4), (1.5, -0.5)])
def test_years_that_are_no_distribution(chances: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="not a distribution"):
        Years(0, chances)


def test_draws_follow_the_chances() -> None:
    for stated in (Years(3, (0.3, 0.4, 0.2, 0.1)), Years.normal(75, 10, 45, 105), Years.popularity(50)):
        check(stated.draw(np.random.default_rng(1), 50_000), stated)


# Form


def assert_sound(kb: TemporalKB, size: int) -> None:
    """What holds for every size and seed."""
    facts, rows = kb.train, rows_of(kb)
    assert len(kb) == len(facts) == kb.problems.rows_read == size
    assert set(kb.splits) == {"train"}
    assert kb.granularity is Granularity.YEAR
    assert len(kb.problems) == 0
    assert tuple(kb.relations) == RELATIONS
    assert np.unique(facts.r).tolist() == list(range(len(RELATIONS)))
    assert np.array_equal(np.union1d(facts.s, facts.o), np.arange(len(kb.entities)))
    assert rows.is_duplicated().sum() == 0
    assert (facts.begin <= facts.end).all()
    assert (facts.s != facts.o).all()
    assert_lives(kb)
    assert_rhythm(kb)


def assert_lives(kb: TemporalKB) -> None:
    """One birth before everything, death after everything, and marriages in both directions."""
    births, deaths, marriages = of(kb, "bornIn"), of(kb, "diedIn"), of(kb, "marriedTo")
    assert births["s"].is_unique().all()
    assert deaths["s"].is_unique().all()
    lives = rows_of(kb).filter(pl.col("r").is_in(PERSONAL))
    lives = lives.join(births.select("s", birth="begin"), on="s", how="left")
    assert lives["birth"].null_count() == 0
    assert (lives["birth"] <= lives["begin"]).all()
    ended = lives.join(deaths.select("s", death="begin"), on="s")
    assert (ended["begin"] <= ended["death"]).all()
    closed = ended.filter(pl.col("end") != spans.OPEN_END)
    assert (closed["end"] <= closed["death"]).all()
    assert closed["end"].max() <= SyntheticSpec().last_year
    assert (ended.filter(pl.col("r") == "marriedTo")["end"] != spans.OPEN_END).all()
    mirror = marriages.select(s="o", o="s", begin="begin", end="end")
    assert mirror.join(marriages, on=["s", "o", "begin", "end"]).height == marriages.height
    assert marriages["s"].is_unique().all()


def assert_rhythm(kb: TemporalKB) -> None:
    """Series of games are held each `period` years, in `hosts` cities in turn, with one winner an edition."""
    world, held, wins = SyntheticSpec(), of(kb, "heldIn").sort("s", "begin"), of(kb, "wins")
    for series in held.partition_by("s")[:50]:
        years, cities = series["begin"].to_numpy(), series["o"].to_numpy()
        periods = set(np.diff(years).tolist())
        assert len(periods) <= 1
        assert periods <= set(world.periods)
        assert np.array_equal(cities[world.hosts :], cities[: -world.hosts])
        assert world.first_games <= years[0] < world.first_games + max(periods | {5})
        if series["s"][0] != held["s"].max():  # the last series is cut to the number of facts
            assert years[-1] + max(periods) > world.last_year
    editions = held.select(o="s", begin="begin").join(wins, on=["o", "begin"], how="left")
    assert editions.height == held.height
    assert editions["s"].null_count() == held.height - wins.height <= 1


@pytest.mark.parametrize("seed", [0, 1, 12345])
@pytest.mark.parametrize("size", [100, 101, 1_000, 12_345])
def test_exact_size_and_sound(size: int, seed: int) -> None:
    assert_sound(generate(size, seed), size)


@settings(max_examples=25, deadline=None)
@given(size=st.integers(100, 3000), seed=st.integers(0, 2**32))
def test_sound_whatever_the_size(size: int, seed: int) -> None:
    assert_sound(generate(size, seed), size)


def test_big_is_sound() -> None:
    assert_sound(big(), 200_000)


def test_numbers_are_ranks_of_names() -> None:
    kb = generate(1000)
    assert kb.entities.names.is_sorted()
    kinds = rows_of(kb).with_columns(
        subject=kb.entities.names.gather(kb.train.s).str.head(-9),
        object=kb.entities.names.gather(kb.train.o).str.head(-9),
    )
    assert set(kinds.select("subject", "r", "object").unique().rows()) == {
        ("person", "bornIn", "place"),
        ("person", "studiedAt", "school"),
        ("person", "worksFor", "employer"),
        ("person", "wonPrize", "prize"),
        ("person", "marriedTo", "person"),
        ("person", "diedIn", "place"),
        ("games", "heldIn", "place"),
        ("team", "wins", "games"),
    }


def test_one_seed_one_kb() -> None:
    one, other = generate(5000, 4), generate(5000, 4)
    assert one == other
    assert one.digest == other.digest
    assert one != generate(5000, 5)
    assert generate() == generate(1000, 0)


def test_the_hash_seed_has_no_say() -> None:
    program = "from timeplex.datasets.synthetic import generate; print(generate(500, 9).digest)"
    digests = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert digests == {generate(500, 9).digest}


def test_a_given_size_does_not_depend_on_the_global_generator() -> None:
    np.random.seed(1)  # noqa: NPY002 - the point is that this state is neither read nor changed
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    generate(100)
    assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


# Distributions that a model should find


@pytest.mark.parametrize(("earlier", "later"), [*permutations(PERSONAL, 2)], ids=lambda relation: relation)
def test_gaps(earlier: str, later: str) -> None:
    both = first(big(), earlier).join(first(big(), later), on="s")
    check((both[later] - both[earlier]).to_numpy(), big_world().gap(earlier, later))


def big_world() -> SyntheticSpec:
    return SyntheticSpec(died=1.0)


def test_gap_of_jobs() -> None:
    jobs = of(big(), "worksFor").sort("s", "begin")
    gaps = jobs.select(pl.col("begin").diff().over("s")).drop_nulls()["begin"]
    check(gaps.to_numpy(), SyntheticSpec().gap("worksFor", "worksFor"))


def test_births() -> None:
    check(first(big(), "bornIn")["bornIn"].to_numpy(), SyntheticSpec().birth)


@pytest.mark.parametrize("relation", ["studiedAt", "worksFor"])
def test_durations(relation: str) -> None:
    closed = of(big(), relation).filter(pl.col("end") != spans.OPEN_END)
    check((closed["end"] - closed["begin"]).to_numpy(), SyntheticSpec().duration(relation))


def test_durations_of_events_are_nothing() -> None:
    for relation in ("bornIn", "diedIn", "wonPrize", "heldIn", "wins"):
        events = of(big(), relation)
        assert (events["begin"] == events["end"]).all()
        assert SyntheticSpec().duration(relation) == Years(0, (1.0,))


def test_marriages_end_in_divorce_death_or_not() -> None:
    deaths = first(big(), "diedIn")
    marriages = of(big(), "marriedTo").filter(pl.col("s") < pl.col("o"))
    marriages = marriages.join(deaths.select("s", one="diedIn"), on="s", how="left")
    marriages = marriages.join(deaths.select(o="s", other="diedIn"), on="o", how="left")
    marriages = marriages.with_columns(death=pl.min_horizontal("one", "other").fill_null(spans.OPEN_END))
    divorced = marriages.filter(pl.col("end") < pl.col("death"))
    check((divorced["end"] - divorced["begin"]).to_numpy(), SyntheticSpec().duration("marriedTo"))
    assert (marriages["end"] <= marriages["death"]).all()
    longest = pl.col("begin") + SyntheticSpec().divorce.last
    could = marriages.filter((longest < pl.col("death")) & (longest <= SyntheticSpec().last_year))
    assert_share(divorced.height, could.height, SyntheticSpec().divorced)
    assert 0.05 < (marriages["end"] == spans.OPEN_END).mean() < 0.5


def assert_share(some: int, all_: int, stated: float) -> None:
    assert abs(some / all_ - stated) < 4 * np.sqrt(stated * (1 - stated) / all_)


def test_stated_shares() -> None:
    world, kb = SyntheticSpec(), big()
    people = of(kb, "bornIn").height
    assert_share(first(kb, "studiedAt").height, people, world.studied)
    assert_share(first(kb, "worksFor").height, people, world.worked)
    assert_share(first(kb, "wonPrize").height, people, world.honoured)
    assert_share(first(kb, "marriedTo").height // 2, people // 2, world.married)
    last_jobs = of(kb, "worksFor").filter(pl.col("begin") == pl.col("begin").max().over("s"))
    assert_share(last_jobs.filter(pl.col("end") == spans.OPEN_END).height, last_jobs.height, world.open_job)
    open_jobs = of(kb, "worksFor").filter(pl.col("end") == spans.OPEN_END)
    assert open_jobs.height == last_jobs.filter(pl.col("end") == spans.OPEN_END).height


def test_winners_recur() -> None:
    wins = of(big(), "wins")
    teams = big().entities.names.gather(wins["s"]).str.tail(8).cast(pl.Int64).to_numpy() % SyntheticSpec().teams
    check(teams, Years.popularity(SyntheticSpec().teams))
    assert wins.group_by("s", "o").len()["len"].mean() > 3


def test_no_gap_of_games() -> None:
    with pytest.raises(InputError, match="periods"):
        SyntheticSpec().gap("heldIn", "heldIn")


# Structure


def test_degrees_are_skewed() -> None:
    births = of(big(), "bornIn").group_by("o").len()["len"].sort(descending=True)
    assert births[: len(births) // 100].sum() > 0.08 * births.sum()
    assert births[0] > 20 * births.median()


def test_entities_grow_with_facts() -> None:
    for size in (1_000, 10_000, 100_000):
        assert 0.25 < len(generate(size).entities) / size < 0.35


@pytest.mark.parametrize("relation", ["studiedAt", "worksFor", "diedIn"])
def test_the_birthplace_tells_more_than_frequency(relation: str) -> None:
    """Guess the object: the most frequent one among those born in the same place, or among all."""
    pairs = of(big(), relation).select("s", "o").join(of(big(), "bornIn").select("s", place="o"), on="s")
    known, asked = pairs.filter(pl.col("s") % 2 == 0), pairs.filter(pl.col("s") % 2 == 1)
    guesses = known.group_by("place").agg(guess=pl.col("o").mode().min())
    local = asked.join(guesses, on="place").select(pl.col("guess") == pl.col("o")).to_series().mean()
    overall = (asked["o"] == known["o"].mode().min()).mean()
    assert local > 0.1
    assert local > 5 * overall


# Other worlds and edges


def test_another_world() -> None:
    world = SyntheticSpec(
        open_job=1.0, married=0.0, periods=(3,), hosts=1, wait=Years(2, (1.0,)), study=Years(4, (1.0,))
    )
    kb = generate(2000, world=world)
    both = first(kb, "studiedAt").join(first(kb, "worksFor"), on="s")
    assert set((both["worksFor"] - both["studiedAt"]).to_list()) == {6}
    assert of(kb, "marriedTo").height == 0
    assert set(of(kb, "heldIn").sort("s", "begin").select(pl.col("begin").diff().over("s")).drop_nulls()["begin"]) == {
        3
    }


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_only_games_or_hardly_any(share: float) -> None:
    kb = generate(1000, world=SyntheticSpec(biographies=share))
    assert len(kb) == 1000
    games = of(kb, "heldIn").height + of(kb, "wins").height
    assert games == 1000 if share == 0 else games < 100


@pytest.mark.parametrize("facts", [99, 0, -5, 10_000_001, 1000.0, "1000", None, True])
def test_sizes_that_are_refused(facts: object) -> None:
    with pytest.raises(InputError) as caught:
        generate(facts)  # type: ignore[arg-type]
    assert "100 to 10000000" in caught.value.hint


@pytest.mark.parametrize("seed", [-1, 1.5, None])
def test_seeds_that_are_refused(seed: object) -> None:
    with pytest.raises(InputError, match="seed"):
        generate(100, seed)  # type: ignore[arg-type]


def test_worlds_that_are_refused() -> None:
    with pytest.raises(InputError, match="share"):
        SyntheticSpec(local=1.5)
    with pytest.raises(InputError, match="count"):
        SyntheticSpec(teams=0)
    with pytest.raises(InputError, match="the age of 44"):
        SyntheticSpec(life=Years.normal(60, 10, 20, 90))
    with pytest.raises(InputError, match="the age of 44"):
        SyntheticSpec(last_year=2000)
    with pytest.raises(InputError, match="kind team"):
        generate(100_000, world=SyntheticSpec(teams=50_000))


@pytest.mark.slow
def test_a_million_facts() -> None:
    """Measured: half a second; twenty leave room for a slow machine."""
    start = time.perf_counter()
    kb = generate(1_000_000)
    assert time.perf_counter() - start < 20
    assert_sound(kb, 1_000_000)
