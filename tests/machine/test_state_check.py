"""Replicas that part are told apart, and the first command is named; equal ones go on."""

import asyncio
from collections.abc import Iterable, Sequence
from random import Random
from typing import Any

import pytest

from pykraft.errors import ReplicasPartedError
from pykraft.machine import Applied
from pykraft.machine.records import CheckRecord, CommandRecord, DigestRecord, OpenRecord, encode_log_record
from pykraft.machine.replica import MachineReplica
from pykraft.machine.state_check import PIECE_RECORDS, StateCheck, StateDigest
from pykraft.types import Epoch, Offset
from tests.machine.counters import Add, Counters, load, next_turn

SESSION = 1


class Voter:
    """A replica with its check, fed from a log that the test writes."""

    def __init__(self, node_id: int, machine: Counters, voters: int = 3, every: int = 3) -> None:
        self.node_id = node_id
        self.machine = machine
        self.replica: MachineReplica[Add, int] = MachineReplica(machine)
        self.undecided: list[ReplicasPartedError] = []
        self.check = StateCheck(self.replica, every, lambda: range(1, voters + 1), self.undecided.append)

    async def take(self, data: bytes, offset: int) -> None:
        news = self.replica.apply(data, Offset(offset), Epoch(1))
        if isinstance(news, CheckRecord | DigestRecord):
            await self.check.met(news, offset)


class Log:
    """A log that all voters apply, record by record; those that stop are left out from then on."""

    def __init__(self, *machines: Counters, every: int = 3, voters: int | None = None) -> None:
        self.voters = [Voter(at, each, voters or len(machines), every) for at, each in enumerate(machines, 1)]
        self.stopped: dict[int, ReplicasPartedError] = {}
        self.end = SESSION
        self._sequence = 0

    @property
    def undecided(self) -> list[tuple[int, ReplicasPartedError]]:
        """What nodes reported when no two agreed."""
        return [(voter.node_id, error) for voter in self.voters for error in voter.undecided]

    async def append(self, record: Any) -> None:
        offset, self.end = self.end, self.end + 1
        for voter in self.voters:
            if voter.node_id not in self.stopped:
                try:
                    await voter.take(encode_log_record(record), offset)
                except ReplicasPartedError as error:
                    self.stopped[voter.node_id] = error

    async def begin(self) -> None:
        await self.append(OpenRecord(0, bytes(16)))

    async def add(self, *keys: str) -> None:
        for key in keys:
            command = Counters.commands.serialize(Add(key, 1))
            await self.append(CommandRecord(0, SESSION, self._sequence, 0, command))
            self._sequence += 1

    async def check(self, order: Sequence[int] | None = None) -> None:
        """A CHECK, then what these voters found, in this order."""
        await self.append(CheckRecord(0))
        for node_id in order or [voter.node_id for voter in self.voters]:
            if node_id not in self.stopped:
                await self.write_digest(node_id)

    async def write_digest(self, node_id: int) -> None:
        found = self.voters[node_id - 1].check.found
        assert found is not None
        commands, state = found.commands, found.state
        await self.append(DigestRecord(0, node_id, found.offset, found.kind, state, commands))


class Salted:
    """A text whose place in a set is another one in each process, as that of any text is."""

    def __init__(self, text: str, salt: int) -> None:
        self.text, self._salt = text, salt

    def __hash__(self) -> int:
        return self._salt * len(self.text)


class SetCounters(Counters):
    """It answers with whatever comes first out of a set."""

    def __init__(self, salt: int) -> None:
        super().__init__()
        self._names = {Salted("a", salt), Salted("bb", salt), Salted("ccc", salt)}

    def apply(self, command: Add, context: Applied) -> int:
        total = super().apply(command, context)
        return total if command.key != "set" else len(next(iter(self._names)).text)


class ListingCounters(Counters):
    """Its snapshot has the names of a set in the order of this process; its state is that of all others."""

    def __init__(self, salt: int) -> None:
        super().__init__()
        self._salt = salt

    def snapshot(self) -> Iterable[bytes]:
        names = sorted(("a", "b", "c"), key=lambda name: hash((name, self._salt)))
        return [*super().snapshot(), f"{self._salt} {names}".encode()]


class DiceCounters(Counters):
    """It adds a random number to its state, and does not answer with it."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._dice = Random(seed)

    def apply(self, command: Add, context: Applied) -> int:
        if command.key != "dice":
            return super().apply(command, context)
        self.totals["dice"] = self._dice.randrange(1 << 60)
        return 0


async def test_equal_replicas_go_on_also_after_a_snapshot() -> None:
    log = Log(Counters(), Counters(), Counters())
    await log.begin()
    for turn in range(4):
        await log.add("x", "y")
        if turn == 1:  # in the middle of the commands before a CHECK
            voter = log.voters[2]
            load(voter.replica, [*voter.replica.save()])
            voter.check.loaded()
            assert voter.check.found is None
        await log.add("x")
        await log.check()
    assert not log.stopped
    assert all(voter.machine.totals == {"x": 8, "y": 4} for voter in log.voters)


async def test_a_result_that_depends_on_the_order_of_a_set_is_named() -> None:
    log = Log(SetCounters(1), SetCounters(1), SetCounters(-1))
    await log.begin()
    await log.add("x", "x", "set", "x", "set")
    await log.check()
    [(node_id, error)] = log.stopped.items()
    assert (node_id, error.offset) == (3, 4)
    assert "the command at offset 4 gave another result here than on nodes 1, 2" in str(error)
    assert '["Add",{"key":"set","amount":1}]' in str(error)


@pytest.mark.parametrize(("every", "named"), [(1, 4), (3, 2)])
async def test_a_state_with_a_random_number_is_told_and_named_if_each_state_is_compared(every: int, named: int) -> None:
    log = Log(DiceCounters(5), DiceCounters(5), DiceCounters(6), every=every)
    await log.begin()
    await log.add("x", "x", "dice", "x")
    await log.check()
    [(node_id, error)] = log.stopped.items()
    assert (node_id, error.offset) == (3, named)
    if every == 1:
        assert "the command at offset 4 gave another result, or led to another state, here than on nodes 1, 2" in str(
            error
        )
    else:
        assert "in one of the 4 commands from offset 2 on; check_every=1 names the first command" in str(error)


async def test_the_majority_decides_whoever_leads_and_tells_first() -> None:
    log = Log(DiceCounters(1), DiceCounters(2), DiceCounters(2))
    await log.begin()
    await log.add("dice")
    await log.check([1, 2, 3])
    assert set(log.stopped) == {1}  # at once, when the second one tells the same
    await log.add("x")
    await log.check([2, 3])
    assert set(log.stopped) == {1}


async def test_without_a_majority_the_next_check_decides_for_the_first_of_the_largest_groups() -> None:
    log = Log(DiceCounters(1), DiceCounters(1), DiceCounters(2), DiceCounters(2), DiceCounters(3), voters=6)
    await log.begin()
    await log.add("dice")
    await log.check((3, 1, 2, 4, 5))
    assert not log.stopped  # none has four of six
    await log.append(CheckRecord(0))
    assert set(log.stopped) == {1, 2, 5}
    assert not log.undecided


@pytest.mark.parametrize("count", [2, 3])
async def test_replicas_of_which_no_two_agree_go_on_and_say_so(count: int) -> None:
    log = Log(*(ListingCounters(salt) for salt in range(1, count + 1)))
    await log.begin()
    await log.add("x")
    await log.check()
    assert not log.undecided
    await log.append(CheckRecord(0))
    assert not log.stopped
    assert [node_id for node_id, _ in log.undecided] == [*range(1, count + 1)]
    assert "the state at offset 3 is another one here" in str(log.undecided[0][1])


async def test_a_parted_snapshot_is_told() -> None:
    log = Log(Counters(), Counters(), Counters())
    await log.begin()
    await log.add("x", "y", "y")
    voter = log.voters[0]
    load(voter.replica, [record for record in voter.replica.save() if b"y=" not in record])
    voter.check.loaded()
    await log.add("x")
    await log.check()
    error = log.stopped[1]
    assert "in one of the 1 command from offset 5 on, or with the snapshot that was loaded before it" in str(error)


async def test_other_kinds_of_digests_and_other_checks_are_not_compared() -> None:
    class Newer(DiceCounters):
        __qualname__ = "DiceCounters"
        snapshot_version = 1

    log = Log(DiceCounters(1), DiceCounters(1), Newer(2))
    await log.begin()
    await log.add("dice")
    await log.check()
    await log.add("dice")
    old = log.voters[2].check.found
    assert old is not None
    await log.append(CheckRecord(0))
    await log.append(DigestRecord(0, 2, old.offset, old.kind, bytes(16), b""))
    assert not log.stopped


async def test_the_digest_of_a_large_state_lets_other_tasks_run() -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await next_turn()
            turns += 1

    log = Log(Counters())
    await log.begin()
    log.voters[0].machine.totals = {f"{at}": at for at in range(PIECE_RECORDS * 5)}
    counting = asyncio.create_task(count())
    await next_turn()
    await log.append(CheckRecord(0))
    assert turns >= 2
    counting.cancel()


def test_a_digest_does_not_depend_on_the_order_of_records() -> None:
    def digest(records: Iterable[bytes]) -> bytes:
        found = StateDigest()
        for record in records:
            found.add(record)
        return found.value()

    assert digest([b"a", b"b", b"b"]) == digest([b"b", b"a", b"b"])
    assert len({digest(records) for records in ([], [b"a"], [b"a", b"a"], [b"a", b"b"], [b"ab"])}) == 5
