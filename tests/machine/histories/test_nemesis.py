"""The order of the faults: from a seed, and each kind before any comes again."""

from itertools import islice
from random import Random

from tests.machine.histories.nemesis import FAULTS, LASTS_S, episodes


def test_a_seed_gives_the_same_episodes() -> None:
    first, again, other = (list(islice(episodes(Random(seed), FAULTS), 50)) for seed in (1, 1, 2))
    assert first == again != other


def test_each_kind_comes_before_any_comes_again() -> None:
    drawn = list(islice(episodes(Random(3), FAULTS), 10 * len(FAULTS)))
    for at in range(0, len(drawn), len(FAULTS)):
        assert sorted(kinds[0] for kinds in drawn[at : at + len(FAULTS)]) == sorted(FAULTS)
    assert {len(kinds) for kinds in drawn} == {1, 2}
    assert all(len(set(kinds)) == len(kinds) for kinds in drawn)


def test_a_single_kind_never_overlaps() -> None:
    assert set(islice(episodes(Random(4), ["freeze"]), 20)) == {("freeze",)}


def test_every_fault_has_its_time() -> None:
    assert set(LASTS_S) == set(FAULTS)
