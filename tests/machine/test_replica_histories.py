"""Random logs of many clients, with copies, late copies, snapshots and time, give what a simple model gives.

The model knows nothing of sessions: it applies the first copy of each command that its client still waits for. Bugs
that are planted into the replica must be noticed within the same seeds.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

import pytest

from pykraft.machine import records
from pykraft.machine import replica as replicas
from pykraft.machine.replica import (
    SESSION_TIMEOUT_MS,
    CommandAnswer,
    CommandAnswered,
    CommandVerdict,
    MachineReplica,
    SessionOpened,
    SessionWatcher,
)
from pykraft.types import Epoch, Offset
from tests.machine.counters import Add, Counters, load

SEEDS = 40
Plant = Callable[[pytest.MonkeyPatch], None]


class Client:
    """One session, with the number of its next command, and what it still waits for."""

    def __init__(self, session_id: int) -> None:
        self.session_id = session_id
        self.next = 0
        self.waiting: set[int] = set()
        self.used_ms = 0
        self.told = 0
        self.applied: dict[int, int] = {}

    def issue(self, time_ms: int, command: Add) -> records.CommandRecord:
        self.waiting.add(self.next)
        self.next += 1
        data = Counters.commands.serialize(command)
        return records.CommandRecord(time_ms, self.session_id, self.next - 1, self.acknowledged, data)

    @property
    def acknowledged(self) -> int:
        return min(self.waiting, default=self.next)


def play(seed: int) -> None:
    """Feed two replicas with a random log; one of them is now and then replaced by one from its snapshot.

    A third one gets the records in pieces, as nodes do, and its clients hear the same.
    """
    rng = Random(seed)
    pair = [MachineReplica(Counters()), MachineReplica(Counters())]
    clients: list[Client] = []
    sent: list[tuple[Client, records.CommandRecord]] = []
    third = InPieces()
    total = time_ms = 0
    for offset in range(150):
        time_ms += rng.choice([0, 1, 500, 5_000] if rng.random() < 0.98 else [SESSION_TIMEOUT_MS])
        if not clients or rng.random() < 0.05:
            record: Any = records.OpenRecord(time_ms, bytes(16))
            clients.append(Client(offset))
            clients[-1].used_ms = time_ms
            expected: Any = SessionOpened(bytes(16), offset)
        else:
            if sent and rng.random() < 0.5:  # a copy, perhaps one that comes late
                client, record = rng.choice(sent)
                record = records.CommandRecord(
                    time_ms, record.session_id, record.sequence, record.acknowledged, record.command
                )
            else:
                client = rng.choice(clients)
                record = client.issue(time_ms, Add("x", rng.randint(1, 9)))
                sent.append((client, record))
            if time_ms - client.used_ms > SESSION_TIMEOUT_MS:
                client.used_ms = -(10**9)  # it stays so
                expected = CommandVerdict.REFUSED
            else:
                client.used_ms = time_ms
                sequence = record.sequence
                client.told = max(client.told, record.acknowledged)
                if sequence < client.told:
                    expected = None
                else:
                    if sequence not in client.applied:
                        total += Counters.commands.deserialize(record.command).amount
                        client.applied[sequence] = total
                    expected = client.applied[sequence]
                if client.waiting and rng.random() < 0.7:
                    client.waiting.discard(rng.choice(sorted(client.waiting)))
        data, where = records.encode_log_record(record), f"seed {seed}, offset {offset}"
        news = [each.apply(data, Offset(offset), Epoch(1)) for each in pair]
        found = [(sortable(one), total_of(each)) for one, each in zip(news, pair, strict=True)]
        assert found == [(expected, total)] * 2, where
        third.add(data, news[0])
        if rng.random() < 0.2:
            third.compare(pair[0], where)
        if rng.random() < 0.1:
            restored = MachineReplica(Counters())
            load(restored, [*pair[1].save()])
            pair[1] = restored
    assert [*pair[0].save()] == [*pair[1].save()]


class InPieces(dict[int, SessionWatcher]):
    """A replica that gets many records at a time, and watches all sessions."""

    def __init__(self) -> None:
        self.replica = MachineReplica(Counters())
        self.replica.watchers = self
        self.heard: list[CommandAnswered] = []
        self.expected: list[CommandAnswered] = []
        self._waiting: list[bytes] = []
        self._offset = 0

    def get(self, session_id: int, default: Any = None) -> SessionWatcher:
        del default
        return HeardSession(session_id, self.heard)

    def add(self, data: bytes, news: Any) -> None:
        """One more record, and what its client hears."""
        self._waiting.append(data)
        if isinstance(news, CommandAnswered):
            self.expected.append(news)

    def compare(self, replica: MachineReplica[Any, Any], where: str) -> None:
        """Apply what waits; then all is as on a replica that got one record after the other."""
        while self._waiting:
            count = self.replica.apply_commands(self._waiting, self._offset, Epoch(1))
            if not count:
                self.replica.apply(self._waiting[0], Offset(self._offset), Epoch(1))
            self._offset += count or 1
            del self._waiting[: count or 1]
        assert self.heard == self.expected, where
        assert [*self.replica.save()] == [*replica.save()], where


class HeardSession(NamedTuple):
    """Watches one session."""

    session_id: int
    told: list[CommandAnswered]

    def answered(self, sequence: int, answer: CommandAnswer) -> None:
        self.told.append(CommandAnswered(self.session_id, sequence, answer))


def sortable(news: Any) -> Any:
    """The result of a command as a number, or what else a client hears."""
    if isinstance(news, CommandAnswered):
        return int(news.answer.value) if news.answer.verdict is CommandVerdict.APPLIED else news.answer.verdict
    return news


def total_of(replica: MachineReplica[Any, Any]) -> int:
    assert isinstance(replica.machine, Counters)
    return replica.machine.totals.get("x", 0)


def test_random_logs_apply_each_command_once() -> None:
    for seed in range(SEEDS):
        play(seed)


def forget_in_snapshots(*kinds: type) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        save = MachineReplica.save

        def forgetful(self: MachineReplica[Any, Any]) -> Iterator[bytes]:
            return (one for one in save(self) if not isinstance(records.decode_snapshot_record(one), kinds))

        patch.setattr(MachineReplica, "save", forgetful)

    return plant


def never_acknowledge(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MachineReplica, "_acknowledge", staticmethod(lambda session, acknowledged: session.answers.clear()))


def never_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MachineReplica, "_is_over", lambda self, session: False)


def end_by_the_sweep_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replicas, "SWEEP_INTERVAL_MS", 10**9)
    patch.setattr(MachineReplica, "_is_over", lambda self, session: False)


@pytest.mark.parametrize(
    "plant",
    [
        pytest.param(forget_in_snapshots(records.ResultRecord), id="a_snapshot_forgets_kept_results"),
        pytest.param(
            forget_in_snapshots(records.ResultRecord, records.SessionRecord), id="a_snapshot_forgets_sessions"
        ),
        never_acknowledge,
        never_end,
        end_by_the_sweep_alone,
    ],
)
def test_a_planted_bug_is_noticed(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match="seed"):
        test_random_logs_apply_each_command_once()
