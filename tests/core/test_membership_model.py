"""The history of voter sets, compared with one that forgets nothing, under every order of log events.

Records, plain batches, truncations, snapshots of the log and snapshots in its place, at adjacent offsets, in every
order up to a depth; after each step every question that may still be asked is asked. Nothing before the newest snapshot
is cut or asked for any more: what it stands for is committed.

Source: KIP-853 §Log and voter sets; Raft dissertation §4.1 (the latest set in the log is in force, committed or not).
"""

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any

import pytest

from pykraft.core.voter_history import BOOTSTRAP_OFFSET, VoterHistory
from pykraft.types import KRaftVersion, KRaftVoters, Offset, VoterSet
from tests.core.replicas import key, voter_set

SETS = (voter_set(1), voter_set(1, 2))
STATIC = voter_set(1, 2, 3)
END_MAX = 4
DEPTH = 5


@dataclass(frozen=True)
class Truth:
    """Everything that was ever in force: (offset, set) and (offset, level), as long as it was not cut."""

    sets: tuple[tuple[int, VoterSet], ...] = ()
    levels: tuple[tuple[int, int], ...] = ()
    end: int = 0
    snapshot_end: int = 0

    def voters_at(self, offset: int) -> VoterSet | None:
        return next((voters for at, voters in reversed(self.sets) if at <= offset), None)

    def level_at(self, offset: int) -> int:
        return next((level for at, level in reversed(self.levels) if at <= offset), 0)


Step = tuple[str, int]


def steps_of(truth: Truth) -> Iterator[Step]:
    """What can happen next."""
    if truth.end < END_MAX:
        yield "plain", 0
        yield from (("voters", number) for number in range(len(SETS)))
        yield "level", 1
        yield from (("install", end) for end in range(truth.end + 1, END_MAX + 1))
    yield from (("truncate", end) for end in range(truth.snapshot_end, truth.end))
    yield from (("snapshot", end) for end in range(truth.snapshot_end + 1, truth.end + 1))


def after(truth: Truth, known: VoterHistory, step: Step) -> Truth:
    """Do the step in both."""
    what, number = step
    end = Offset(truth.end)
    match what:
        case "plain":
            return Truth(truth.sets, truth.levels, truth.end + 1, truth.snapshot_end)
        case "voters":
            known.record(end, KRaftVoters(SETS[number]))
            return Truth((*truth.sets, (end, SETS[number])), truth.levels, end + 1, truth.snapshot_end)
        case "level":
            known.record(end, KRaftVersion(number))
            return Truth(truth.sets, (*truth.levels, (end, number)), end + 1, truth.snapshot_end)
        case "truncate":
            known.truncate_to(Offset(number))
            sets = tuple(each for each in truth.sets if each[0] < number)
            levels = tuple(each for each in truth.levels if each[0] < number)
            return Truth(sets, levels, number, truth.snapshot_end)
        case "snapshot":
            known.forget_before(Offset(number - 1))
            return Truth(truth.sets, truth.levels, truth.end, number)
        case _:
            known.replace_by(Offset(number), (KRaftVersion(1), KRaftVoters(SETS[1])))
            return Truth(((number - 1, SETS[1]),), ((number - 1, 1),), number, number)


def copied(known: VoterHistory) -> VoterHistory:
    """The same history, to be changed on its own."""
    made = copy(known)
    made._sets, made._levels = copy(known._sets), copy(known._levels)
    histories: tuple[Any, Any] = (made._sets, made._levels)
    for history in histories:
        history._offsets, history._values = list(history._offsets), list(history._values)
    return made


def compare(truth: Truth, known: VoterHistory, story: tuple[Step, ...]) -> None:
    """Ask everything that may still be asked."""
    assert known.voters == (truth.voters_at(truth.end) or STATIC), story
    assert known.kraft_version == truth.level_at(truth.end), story
    assert known.voters_offset == (truth.sets[-1][0] if truth.sets else None), story
    for offset in range(max(0, truth.snapshot_end - 1), truth.end + 1):
        assert known.voters_at(Offset(offset)) == truth.voters_at(offset), (story, offset)
        assert known.kraft_version_at(Offset(offset)) == truth.level_at(offset), (story, offset)
    for committed_end in range(truth.snapshot_end, truth.end + 1):
        compare_doubt(truth, known, committed_end, story)


def compare_doubt(truth: Truth, known: VoterHistory, committed_end: int, story: tuple[Step, ...]) -> None:
    """Who is on its way out of a set that may not be committed."""
    is_in_doubt = bool(truth.sets) and truth.sets[-1][0] >= committed_end
    former = truth.voters_at(truth.sets[-1][0] - 1) or STATIC if is_in_doubt else VoterSet()
    for node_id in (1, 2, 3):
        was_voter = former.get(key(node_id).id) is not None
        is_leaving = was_voter and known.voters.get(key(node_id).id) is None
        assert known.was_voter(key(node_id).id, Offset(committed_end)) == was_voter, story
        assert known.is_leaving(key(node_id), Offset(committed_end)) == is_leaving, story


@pytest.mark.interpreted
@pytest.mark.parametrize("is_formatted", [False, True])
def test_no_order_of_steps_makes_the_history_forget_what_is_still_asked_for(*, is_formatted: bool) -> None:
    truth, known = Truth(), VoterHistory(STATIC)
    if is_formatted:
        known = VoterHistory(STATIC, [(BOOTSTRAP_OFFSET, KRaftVersion(1)), (BOOTSTRAP_OFFSET, KRaftVoters(SETS[0]))])
        truth = Truth(((BOOTSTRAP_OFFSET, SETS[0]),), ((BOOTSTRAP_OFFSET, 1),))
    compare(truth, known, ())
    frontier: list[tuple[Truth, VoterHistory, tuple[Step, ...]]] = [(truth, known, ())]
    seen: set[object] = set()
    for _ in range(DEPTH):
        reached: list[tuple[Truth, VoterHistory, tuple[Step, ...]]] = []
        for truth, known, story in frontier:
            for step in steps_of(truth):
                changed = copied(known)
                new = after(truth, changed, step)
                memory = (new, tuple(changed._sets._offsets), tuple(changed._levels._offsets))
                if memory not in seen:
                    seen.add(memory)
                    compare(new, changed, (*story, step))
                    reached.append((new, changed, (*story, step)))
        frontier = reached
    assert len(seen) > 1_000
