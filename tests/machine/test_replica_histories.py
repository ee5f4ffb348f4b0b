"""Random logs of many clients, with copies, late copies, snapshots and time, give what a simple model gives.

The model knows nothing of sessions: it applies the first copy of each command that its client still waits for. Bugs
that are planted into the replica must be noticed within the same seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from pykraft.machine import replica as replicas
from pykraft.machine.records import (
    CommandRecord,
    OpenRecord,
    ResultRecord,
    SessionRecord,
    decode_snapshot_record,
    encode_log_record,
)
from pykraft.machine.replica import SESSION_TIMEOUT_MS, CommandAnswered, CommandVerdict, MachineReplica, SessionOpened
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

    @property
    def acknowledged(self) -> int:
        return min(self.waiting, default=self.next)


def play(seed: int) -> None:
    """Feed two replicas with a random log; one of them is now and then replaced by one from its snapshot."""
    rng = Random(seed)
    pair = [MachineReplica(Counters()), MachineReplica(Counters())]
    clients: list[Client] = []
    sent: list[tuple[Client, CommandRecord]] = []
    total = time_ms = 0
    for offset in range(150):
        time_ms += rng.choice([0, 1, 500, 5_000] if rng.random() < 0.98 else [SESSION_TIMEOUT_MS])
        if not clients or rng.random() < 0.05:
            record: Any = OpenRecord(time_ms, bytes(16))
            clients.append(Client(offset))
            clients[-1].used_ms = time_ms
            expected: Any = SessionOpened(bytes(16), offset)
        else:
            if sent and rng.random() < 0.5:  # a copy, perhaps one that comes late
                client, record = rng.choice(sent)
                record = CommandRecord(time_ms, record.session_id, record.sequence, record.acknowledged, record.command)
            else:
                client = rng.choice(clients)
                client.waiting.add(client.next)
                client.next += 1
                command = Counters.commands.serialize(Add("x", rng.randint(1, 9)))
                record = CommandRecord(time_ms, client.session_id, client.next - 1, client.acknowledged, command)
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
        for at, each in enumerate(pair):
            news = each.apply(encode_log_record(record), Offset(offset), Epoch(1))
            assert told(news) == expected, f"seed {seed}, offset {offset}, replica {at}"
            assert isinstance(each.machine, Counters)
            assert each.machine.totals.get("x", 0) == total
        if rng.random() < 0.1:
            restored = MachineReplica(Counters())
            load(restored, [*pair[1].save()])
            pair[1] = restored
    assert [*pair[0].save()] == [*pair[1].save()]


def told(news: Any) -> Any:
    """The result of a command as a number, or what else a client hears."""
    if isinstance(news, CommandAnswered):
        return int(news.answer.value) if news.answer.verdict is CommandVerdict.APPLIED else news.answer.verdict
    return news


def test_random_logs_apply_each_command_once() -> None:
    for seed in range(SEEDS):
        play(seed)


def forget_in_snapshots(*kinds: type) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        save = MachineReplica.save

        def forgetful(self: MachineReplica[Any, Any]) -> Iterator[bytes]:
            return (one for one in save(self) if not isinstance(decode_snapshot_record(one), kinds))

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
        pytest.param(forget_in_snapshots(ResultRecord), id="a_snapshot_forgets_kept_results"),
        pytest.param(forget_in_snapshots(ResultRecord, SessionRecord), id="a_snapshot_forgets_sessions"),
        never_acknowledge,
        never_end,
        end_by_the_sweep_alone,
    ],
)
def test_a_planted_bug_is_noticed(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match="seed"):
        test_random_logs_apply_each_command_once()
