"""Splitting a KB into train, valid and test, and what leaks from one into the other."""

from dataclasses import dataclass, replace

import numpy as np

from timeplex.errors import InputError
from timeplex.kb import dates, spans
from timeplex.kb.facts import SPLITS, Facts, TemporalKB
from timeplex.typing import Codes, Ints


def split_randomly(kb: TemporalKB, valid: float = 0.1, test: float = 0.1, seed: int = 0) -> TemporalKB:
    """All facts split anew at random; every entity and relation of valid and test also occurs in train.

    Facts are taken in a random order, and one may leave train only while its entities and relation have
    another fact there. If too few may, valid and test are smaller than asked for, in proportion.
    """
    _check_shares(valid, test)
    if seed < 0:
        raise InputError(f"The seed cannot be {seed}.", "Give a seed of 0 or more.")
    facts = kb.facts
    order = np.random.default_rng(seed).permutation(len(facts))
    for_valid = round(len(facts) * valid)
    wanted = for_valid + round(len(facts) * test)
    movable = _spare(facts, order, wanted, len(kb.entities), len(kb.relations))
    to_valid = round(len(movable) * for_valid / wanted) if wanted else 0
    chosen = np.zeros(len(facts), np.int64)
    chosen[movable[:to_valid]] = SPLITS.index("valid")
    chosen[movable[to_valid:]] = SPLITS.index("test")
    return _with_splits(kb, facts, chosen)


def _spare(facts: Facts, order: Ints, wanted: int, entities: int, relations: int) -> Ints:
    """The first `wanted` rows in the given order whose removal leaves no entity or relation without a fact."""
    # Each decision depends on the ones before, so this is a plain loop; a million facts take well below a second.
    chosen: list[int] = []
    degree = np.bincount(np.concatenate([facts.s, facts.o]), minlength=entities).tolist()
    relation_degree = np.bincount(facts.r, minlength=relations).tolist()
    s, r, o = facts.s.tolist(), facts.r.tolist(), facts.o.tolist()
    for row in order.tolist():
        if len(chosen) == wanted:
            break
        subject, relation, object_ = s[row], r[row], o[row]
        needed = 3 if subject == object_ else 2
        if degree[subject] >= needed and degree[object_] >= needed and relation_degree[relation] >= 2:
            degree[subject] -= 1
            degree[object_] -= 1
            relation_degree[relation] -= 1
            chosen.append(row)
    return np.array(chosen, np.int64)


def split_by_time(kb: TemporalKB, valid: float = 0.1, test: float = 0.1) -> TemporalKB:
    """All facts split by their begin: the latest are test, those before valid, the rest train.

    Facts that begin at one instant stay together. So test has the latest instants that come closest to its
    share, then valid those before; each has at least one instant, if there are enough. A fact with no begin
    counts at its end; one with no date is train.
    """
    _check_shares(valid, test)
    facts = kb.facts
    when = np.where(facts.dated, facts.date, spans.OPEN_BEGIN)  # no date at all: before every instant
    instants, at, sizes = np.unique(when, return_inverse=True, return_counts=True)
    wanted = {split: round(len(facts) * share) for split, share in (("test", test), ("valid", valid))}
    asked = [split for split, size in wanted.items() if size]
    if asked and len(instants) == 1 and instants[0] != spans.OPEN_BEGIN:
        only = dates.write(instants, kb.granularity)[0]
        raise InputError(f"All facts of {kb.name} begin at {only}.", "Split at random instead: leave out --by-time.")
    chosen = np.zeros(len(facts), np.int64)
    stop = len(instants)
    for still, split in zip(range(len(asked), 0, -1), asked, strict=True):
        if stop == 1:  # train keeps its instant
            break
        earliest = min(still, stop - 1)  # the parts to come, train among them, need an instant each
        from_here_on = np.cumsum(sizes[earliest:stop][::-1])[::-1]
        start = earliest + int(np.argmin(np.abs(from_here_on - wanted[split])))
        chosen[(at >= start) & (at < stop)] = SPLITS.index(split)
        stop = start
    return _with_splits(kb, facts, chosen)


def _check_shares(valid: float, test: float) -> None:
    if not (0 <= valid < 1 and 0 <= test < 1 and valid + test < 1):
        raise InputError(
            f"Shares of {valid:g} for valid and {test:g} for test leave nothing for train.",
            "Give shares of the facts, such as 0.1 and 0.1.",
        )


def _with_splits(kb: TemporalKB, facts: Facts, chosen: Ints) -> TemporalKB:
    return replace(kb, splits={split: facts[np.flatnonzero(chosen == at)] for at, split in enumerate(SPLITS)})


@dataclass(frozen=True)
class Leakage:
    """How many facts of a split are given away, more or less, by the facts of train."""

    split: str
    facts: int
    same_triple: int  # (s, r, o) is in train, at whatever time
    mirrored: int  # (o, r, s) is in train
    mirrored_same_span: int  # … with the identical span
    same_pair: int  # s and o are linked in train by some relation, in either direction
    unseen_entity: int  # s or o is not in train at all


def leakage(kb: TemporalKB) -> list[Leakage]:
    """The leakage of valid and test from train."""
    return [_leakage(kb, split) for split in ("valid", "test") if len(kb.splits.get(split, ()))]


def _leakage(kb: TemporalKB, split: str) -> Leakage:
    train, facts = kb.train, kb.splits[split]
    seen = train.mentioned(len(kb.entities))

    def shared(own: tuple[Codes, ...], known: tuple[Codes, ...]) -> int:
        """How many rows of `own` are among the rows of `known`."""
        both = [np.concatenate(pair).astype(np.int64) for pair in zip(own, known, strict=True)]
        _, rows = np.unique(np.stack(both, axis=1), axis=0, return_inverse=True)
        return int(np.isin(rows[: len(own[0])], rows[len(own[0]) :]).sum())

    s, r, o = facts.s, facts.r, facts.o
    low, high = np.minimum(s, o), np.maximum(s, o)
    train_low, train_high = np.minimum(train.s, train.o), np.maximum(train.s, train.o)
    return Leakage(
        split=split,
        facts=len(facts),
        same_triple=shared((s, r, o), (train.s, train.r, train.o)),
        mirrored=shared((o, r, s), (train.s, train.r, train.o)),
        mirrored_same_span=shared((o, r, s, *facts.span), (train.s, train.r, train.o, *train.span)),
        same_pair=shared((low, high), (train_low, train_high)),
        unseen_entity=int((~(seen[s] & seen[o])).sum()),
    )
