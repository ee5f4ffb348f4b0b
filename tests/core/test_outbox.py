"""What a step writes, in which order, and which write each message waits for."""

import pytest

from pykraft.core import effects
from pykraft.core.effects import Effect, Reply, Report, TruncateTo, WriteElectionState
from pykraft.core.messages import TopLevelError
from pykraft.core.outbox import Outbox, Relies
from pykraft.types import NO_IO, Election, Epoch, Io, Offset, ReplicaKey
from tests.core.replicas import key


def write(outbox: Outbox, epoch: int, voted: ReplicaKey | None = None) -> None:
    outbox.write_election(Election(epoch=Epoch(epoch), voted=voted), (), 0)


def truncate(outbox: Outbox) -> Io:
    io = outbox.next_log_io()
    outbox.add(TruncateTo(io=io, end_offset=Offset(0)))
    return io


def say(outbox: Outbox, relies: Relies) -> None:
    outbox.send(Reply(after=NO_IO, request_id=len(relies.name), message=TopLevelError(error=0)), relies)


def say_all(outbox: Outbox) -> tuple[Io, Io, Io]:
    """What messages of the three kinds would wait for."""
    for relies in Relies:
        say(outbox, relies)
    replies = [effect for effect in outbox.take(0) if isinstance(effect, Reply)]
    epoch, election, log = (reply.after for reply in replies)
    return epoch, election, log


def numbers(found: list[Effect]) -> list[tuple[str, int]]:
    return [
        (type(effect).__name__, effect.io) for effect in found if isinstance(effect, WriteElectionState | TruncateTo)
    ]


def test_only_the_last_election_of_a_step_is_written_and_before_every_other_write() -> None:
    outbox = Outbox()
    io = truncate(outbox)
    write(outbox, 1)
    write(outbox, 2)
    write(outbox, 2, key(3))
    found = outbox.take(0)
    assert numbers(found) == [("WriteElectionState", io - 1), ("TruncateTo", io)]
    assert isinstance(found[0], WriteElectionState)
    assert found[0].election == Election(epoch=Epoch(2), voted=key(3))


def test_numbers_rise_from_step_to_step_with_or_without_elections() -> None:
    outbox = Outbox()
    found: list[Effect] = []
    for step in range(6):
        if step % 2:
            write(outbox, step)
        if step % 3:
            truncate(outbox)
        found += outbox.take(step)
    ios = [io for _, io in numbers(found)]
    assert ios == sorted(set(ios))


def test_a_step_without_writes_takes_no_number() -> None:
    outbox = Outbox()
    outbox.add(Report(text="nothing"))
    assert outbox.take(0) == [Report(text="nothing")]
    assert outbox.take(0) == []
    write(outbox, 1)
    assert numbers(outbox.take(0)) == [("WriteElectionState", 1)]


def test_each_message_waits_for_the_newest_write_that_it_relies_on_and_no_other() -> None:
    outbox = Outbox()
    assert say_all(outbox) == (NO_IO, NO_IO, NO_IO)
    write(outbox, 1)
    raised = outbox.take(0)[0]
    assert isinstance(raised, WriteElectionState)
    assert say_all(outbox) == (raised.io,) * 3

    write(outbox, 1, key(3))
    voted = outbox.take(0)[0]
    assert isinstance(voted, WriteElectionState)
    assert say_all(outbox) == (raised.io, voted.io, voted.io)

    cut = truncate(outbox)
    assert say_all(outbox) == (raised.io, voted.io, cut)

    outbox.persist(raised.io)
    assert say_all(outbox) == (NO_IO, voted.io, cut)
    outbox.persist(voted.io)
    assert say_all(outbox) == (NO_IO, NO_IO, cut)
    outbox.persist(cut)
    assert say_all(outbox) == (NO_IO, NO_IO, NO_IO)


def test_a_message_waits_for_the_election_of_its_own_step_whenever_that_was_written() -> None:
    outbox = Outbox()
    say(outbox, Relies.EPOCH)
    write(outbox, 3)
    write_effect, reply = outbox.take(0)
    assert isinstance(write_effect, WriteElectionState)
    assert isinstance(reply, Reply)
    assert reply.after == write_effect.io


@pytest.mark.interpreted
def test_all_kinds_of_messages_are_held_back() -> None:
    outbox = Outbox()
    write(outbox, 1)
    held: tuple[type[Effect], ...] = (effects.Send, effects.Reply, effects.ReplyFetch, WriteElectionState)
    for kind in held:
        with pytest.raises(AssertionError):
            outbox.add(object.__new__(kind))


def test_the_epoch_on_disk_never_decreases() -> None:
    outbox = Outbox()
    write(outbox, 2)
    with pytest.raises(AssertionError):
        write(outbox, 1)


def test_the_age_of_the_oldest_unfinished_job() -> None:
    outbox = Outbox()
    assert outbox.oldest_unfinished_ms() is None
    write(outbox, 1)
    outbox.take(10)
    first, second = truncate(outbox), truncate(outbox)
    outbox.take(20)
    assert outbox.oldest_unfinished_ms() == 10
    outbox.persist(first)
    assert outbox.oldest_unfinished_ms() == 20
    outbox.persist(second)
    assert outbox.oldest_unfinished_ms() is None
    outbox.persist(first)
    assert say_all(outbox) == (NO_IO, NO_IO, NO_IO)
