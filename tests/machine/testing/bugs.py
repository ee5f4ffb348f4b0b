"""Bugs planted in replicated state machines, which simulated worlds must notice by themselves.

Each plants itself with a patch, and its docstring says what it does.
``python -m tests.machine.testing.search`` finds a seed for each.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from pykraft import errors
from pykraft.client.proposals import _Group
from pykraft.client.reader import _Pieces
from pykraft.core import raft
from pykraft.core.events import CommitHeard
from pykraft.core.on import fetch_response, read
from pykraft.core.replica import Replica
from pykraft.core.state import Follower
from pykraft.host.host import Host
from pykraft.machine import Applied, StateMachine, forwarder, replica
from pykraft.machine.applier import Applier, Attempt, ClientSession
from pykraft.machine.code_version import CodeVersions
from pykraft.machine.forwarder import ForwardConnection, MachineReads
from pykraft.machine.records import (
    CommandRecord,
    ResultRecord,
    SessionRecord,
    decode_log_record,
    decode_snapshot_record,
    encode_log_record,
    unpack_records,
)
from pykraft.machine.replica import MachineReplica
from pykraft.machine.submission import Submission, _CommandGroup
from pykraft.machine.testing.recorded import WatchedMachine
from pykraft.machine.testing.simulate import run_machines, scenario_of
from pykraft.machine.testing.workload import DrawnCommands
from pykraft.sim.run.simulation import Failure
from pykraft.sim.run.world import Outcome
from pykraft.types import Epoch, Instant, Offset
from tests.machine.counters import Add, Counters
from tests.machine.testing.upgrades import run_upgrade
from tests.sim.mutants.patch import Patch


@dataclass(frozen=True, slots=True)
class MachineBug:
    """``plant`` makes the bug; ``seed`` is a world in which it breaks the rule ``noticed_by``.

    Worlds are those of `tests.machine.testing.search`, or of ``run``.
    """

    plant: Callable[[Patch], None]
    seed: int
    noticed_by: str
    machine: Callable[[], StateMachine[Add, int]] = Counters
    run: Callable[[int], Outcome | Failure] | None = None


def draw(random: Random) -> Add:
    """A command for counters; some of them are rejected."""
    return Add(random.choice("xyz"), random.choice((1, 1, 2, -3)))


def nothing(patch: Patch) -> None:
    """The bug is in the machine."""
    del patch


def snapshot_forgets_sessions(patch: Patch) -> None:
    """A snapshot has the state without the sessions."""
    save = MachineReplica.save

    def forgetful(self: MachineReplica[Any, Any]) -> Iterator[bytes]:
        for record in save(self):
            if not isinstance(decode_snapshot_record(record), SessionRecord | ResultRecord):
                yield record

    patch.setattr(MachineReplica, "save", forgetful)


def load_keeps_old_sessions(patch: Patch) -> None:
    """A replica that loads a snapshot keeps the sessions that it had."""
    load = MachineReplica.load

    async def keeping(self: MachineReplica[Any, Any], values: AsyncIterator[bytes]) -> None:
        before = self._sessions.copy()
        await load(self, values)
        self._sessions = before

    patch.setattr(MachineReplica, "load", keeping)


def copies_are_applied(patch: Patch) -> None:
    """A copy of a command is applied again."""
    carry_out = MachineReplica._on_command

    def again(self: MachineReplica[Any, Any], session_id: int, sequence: int, *rest: Any) -> Any:
        session = self._sessions.get(session_id)
        if session is not None:
            session.answers.pop(sequence, None)
        return carry_out(self, session_id, sequence, *rest)

    patch.setattr(MachineReplica, "_on_command", again)


def acknowledged_copies_are_applied(patch: Patch) -> None:
    """A copy of a command whose result was given to its client is applied again."""

    def numberless(session: Any, acknowledged: int) -> None:
        for sequence in [at for at in session.answers if at < acknowledged]:
            del session.answers[sequence]

    patch.setattr(MachineReplica, "_acknowledge", staticmethod(numberless))


def answers_go_by_number_alone(patch: Patch) -> None:
    """A caller gets the answer to a command of another session."""
    begin = Applier.__init__

    class Careless(dict[int, ClientSession]):
        def get(self, session_id: int, default: Any = None) -> Any:
            del session_id
            return next(iter(self.values()), default)

    def careless(self: Applier[Any, Any], node: Any, replica: MachineReplica[Any, Any]) -> None:
        begin(self, node, replica)
        self.sessions = replica.watchers = Careless()

    patch.setattr(Applier, "__init__", careless)


def all_clients_have_one_nonce(patch: Patch) -> None:
    """Two nodes take the same session for their own."""
    begin = Submission.__init__

    def same(self: Submission[Any, Any], node: Any, applier: Any, forwarder: Any, random_bytes: Any) -> None:
        del random_bytes
        begin(self, node, applier, forwarder, bytes)

    patch.setattr(Submission, "__init__", same)


def doubt_is_told_as_not_applied(patch: Patch) -> None:
    """A command whose copy may be in the log is told as certainly not applied."""

    def certain(self: _CommandGroup, error: Exception, timeout_ms: int) -> Exception:
        self.copies = 0
        return failure(self, error, timeout_ms)

    failure = _CommandGroup.failure
    patch.setattr(_CommandGroup, "failure", certain)


def lost_leadership_is_told_as_not_appended(patch: Patch) -> None:
    """A leader that is replaced says that its open proposals are not in the log."""

    def certain(self: Any, outcome: Any) -> None:
        self._fail(errors.NotLeaderError(None, outcome.epoch))

    patch.setattr(_Group, "_doubt", certain)


def lost_forward_is_told_as_not_sent(patch: Patch) -> None:
    """A forwarded command whose answer is lost is told as not sent."""
    ask = ForwardConnection.ask

    async def certain(self: ForwardConnection, records: Sequence[bytes]) -> Any:
        try:
            return await ask(self, records)
        except errors.OutcomeUnknownError as error:
            raise errors.UnreachableError(self._leader(), str(error)) from error

    patch.setattr(ForwardConnection, "ask", certain)


def forwarded_command_is_appended_twice(patch: Patch) -> None:
    """A leader appends what another node forwards a second time, under another number."""

    def twice(data: bytes) -> list[bytes]:
        records = unpack_records(data)
        for record in map(decode_log_record, tuple(records)):
            if isinstance(record, CommandRecord):
                records.append(encode_log_record(record._replace(sequence=record.sequence + 500)))
        return records

    patch.setattr(forwarder, "unpack_records", twice)


def number_of_a_given_up_command_is_used_again(patch: Patch) -> None:
    """A command gets the number of one whose caller waits no longer, and whose copy may be in the log."""
    done = ClientSession.done

    def reusing(self: ClientSession, sequence: int) -> None:
        waiter = self.waiters[sequence]
        was_answered = waiter.done() and not waiter.cancelled() and waiter.exception() is None
        done(self, sequence)
        if not was_answered:
            self._next_sequence = sequence

    patch.setattr(ClientSession, "done", reusing)
    patch.setattr(ClientSession, "hold", lambda self, sequence: None)


def snapshot_state_is_not_restored(patch: Patch) -> None:
    """A replica that loads a snapshot takes its sessions and keeps its own state."""
    restore_stream = WatchedMachine.restore_stream

    async def half(self: WatchedMachine[Any, Any], records: AsyncIterator[bytes]) -> None:
        before, self.machine = self.machine, Counters()
        await restore_stream(self, records)
        self.machine = before

    patch.setattr(WatchedMachine, "restore_stream", half)


def retry_has_a_number_of_its_own(patch: Patch) -> None:
    """Each copy of a command has a number of its own."""
    records = ClientSession.records

    def renumbered(self: ClientSession, attempts: Sequence[Attempt], time_ms: int) -> list[bytes]:
        twins = []
        for _, command, future, deadline_s in attempts:
            twin, _ = self.issue()
            self.waiters[twin] = future
            twins.append((twin, command, future, deadline_s))
        return records(self, twins, time_ms)

    patch.setattr(ClientSession, "records", renumbered)


def read_asks_nobody(patch: Patch) -> None:
    """A node reads at the high watermark that it knows."""

    async def own(self: MachineReads) -> Any:
        return self._node.high_watermark or 0

    patch.setattr(MachineReads, "_ask", own)


def read_does_not_wait_for_apply(patch: Patch) -> None:
    """A read begins before the node has applied what it must see."""

    async def hasty(self: MachineReads, max_age_ms: int, timeout_ms: int) -> None:
        del max_age_ms
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await self._join()
        except TimeoutError:
            raise errors.QuorumUnavailableError("nobody confirmed it") from None

    patch.setattr(MachineReads, "wait", hasty)


def read_joins_a_round_that_has_begun(patch: Patch) -> None:
    """A read counts a confirmation that began before it arrived."""
    join = MachineReads._join

    def late(self: MachineReads) -> Any:
        if not self._serving:
            return join(self)
        waiter: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._serving.append(waiter)
        return waiter

    patch.setattr(MachineReads, "_join", late)


def read_uses_an_old_confirmation(patch: Patch) -> None:
    """A linearizable read uses the last confirmation."""
    fresh = MachineReads._fresh
    patch.setattr(MachineReads, "_fresh", lambda self, max_age_ms: fresh(self, max_age_ms + 300))


def leader_reads_without_a_majority(patch: Patch) -> None:
    """A leader confirms a read by itself."""
    patch.setattr(read, "_is_confirmed", lambda *_: True)


def commit_is_heard_of_any_leader(patch: Patch) -> None:
    """A follower believes what it hears of a commit, although its log may have parted from that of the leader."""

    def credulous(replica: Replica, event: CommitHeard, now: Instant) -> None:
        del now
        if isinstance(replica.state, Follower):
            fetch_response._raise_high_watermark(replica, event.end_offset)

    patch.setitem(raft.HANDLERS, CommitHeard, credulous)


def commit_is_heard_with_a_record_too_many(patch: Patch) -> None:
    """A follower takes the record behind those that it forwarded for committed, too."""
    note_commit = Host.note_commit

    def more(self: Host, epoch: Epoch, end_offset: Offset, now: Instant) -> None:
        note_commit(self, epoch, Offset(end_offset + 1), now)

    patch.setattr(Host, "note_commit", more)


class DiceCounters(Counters):
    """A result depends on a random number."""

    dice = Random(7)

    def apply(self, command: Add, context: Applied) -> int:
        return super().apply(command, context) + self.dice.choice((0, 0, 0, 1))


class ForgetfulCounters(Counters):
    """Its snapshots lack a counter."""

    def snapshot(self) -> Iterable[bytes]:
        return [record for record in super().snapshot() if not record.startswith(b"z")]


class HalfRejecting(Counters):
    """It changes its state, then rejects the command, and only a state that was not restored remembers."""

    def __init__(self) -> None:
        super().__init__()
        self.rejected = 0

    def apply(self, command: Add, context: Applied) -> int:
        try:
            return super().apply(command, context) + self.rejected
        except errors.CommandRejectedError:
            self.rejected += 1
            raise


class HastyRejecting(Counters):
    """It changes its state, then rejects the command, on all replicas alike."""

    def apply(self, command: Add, context: Applied) -> int:
        try:
            return super().apply(command, context)
        except errors.CommandRejectedError:
            self.totals["rejected"] = self.totals.get("rejected", 0) + 1
            raise


class HashCounters(Counters):
    """It answers with a hash, as the order of a set does, which is the same on all replicas of one process."""

    def apply(self, command: Add, context: Applied) -> int:
        return super().apply(command, context) + hash("text")


class PidCounters(Counters):
    """Its state has the number of the process."""

    def apply(self, command: Add, context: Applied) -> int:
        total = super().apply(command, context)
        self.totals["pid"] = os.getpid()
        return total


class DateCounters(Counters):
    """It answers with the year."""

    def apply(self, command: Add, context: Applied) -> int:
        return super().apply(command, context) + time.gmtime(time.time()).tm_year


def resumed_command_has_a_number_of_its_own(patch: Patch) -> None:
    """A command whose outcome is unknown is executed once more, when its caller asks for the outcome."""

    async def again(
        self: Submission[Any, Any], unfinished: errors.UnfinishedCommand, begun_s: float, timeout_ms: int
    ) -> Any:
        return await self.execute(unfinished.data, begun_s, timeout_ms)

    patch.setattr(Submission, "resume", again)


def new_command_waits_for_nobody(patch: Patch) -> None:
    """A command that old nodes cannot read gets into the log before all are upgraded."""
    patch.setattr(MachineReplica, "is_newer", lambda self, command: False)


def leader_asks_nobody_for_the_version(patch: Patch) -> None:
    """A leader with new code takes it for the code of all."""

    async def own(self: CodeVersions, voter_id: int) -> int:
        del voter_id
        return self._known

    patch.setattr(CodeVersions, "_version_of", own)


def voter_that_does_not_answer_counts_as_new(patch: Patch) -> None:
    """A voter that is down is left out of the agreement."""
    version_of = CodeVersions._version_of

    async def patient(self: CodeVersions, voter_id: int) -> int:
        try:
            return await version_of(self, voter_id)
        except errors.PykraftError:
            return self._known

    patch.setattr(CodeVersions, "_version_of", patient)


def snapshot_lacks_the_version(patch: Patch) -> None:
    """A replica that began with a snapshot does not know on what the nodes have agreed."""

    def without(head: Any, sessions: Any, state: Any, marks: Any = ()) -> Any:
        del marks
        return snapshot_records(head, sessions, state)

    snapshot_records = replica._snapshot_records
    patch.setattr(replica, "_snapshot_records", without)


OF_ONE_PROCESS = (HashCounters, PidCounters, DateCounters)
"""What replicas in one process cannot differ in."""


def run_checked(seed: int) -> Outcome | Failure:
    """A world of counters whose nodes compare their states after each twentieth command."""
    return run_machines(Counters, partial(DrawnCommands, draw), seed, scenario=scenario_of("all"), check_every=20)


def half_snapshot_ends_node(patch: Patch) -> None:
    """A snapshot that is open and that the disk then does not read ends the node."""

    def hasty(self: _Pieces[Any], read: Callable[[_Pieces[Any]], Any] = _Pieces.next) -> Any:
        try:
            return read(self)
        except errors.StorageError as error:
            return error

    patch.setattr(_Pieces, "next", hasty)


BUGS = {
    "snapshot_forgets_sessions": MachineBug(snapshot_forgets_sessions, 0, "EqualReplicas"),
    "load_keeps_old_sessions": MachineBug(load_keeps_old_sessions, 0, "EqualReplicas"),
    "copies_are_applied": MachineBug(copies_are_applied, 14, "AppliedOnce"),
    "acknowledged_copies_are_applied": MachineBug(acknowledged_copies_are_applied, 81, "AppliedOnce"),
    "answers_go_by_number_alone": MachineBug(answers_go_by_number_alone, 0, "AnswersAreTrue"),
    "all_clients_have_one_nonce": MachineBug(all_clients_have_one_nonce, 0, "AnswersAreTrue"),
    "doubt_is_told_as_not_applied": MachineBug(doubt_is_told_as_not_applied, 0, "ErrorsAreTrue"),
    "lost_leadership_is_told_as_not_appended": MachineBug(lost_leadership_is_told_as_not_appended, 36, "ErrorsAreTrue"),
    "lost_forward_is_told_as_not_sent": MachineBug(lost_forward_is_told_as_not_sent, 23, "ErrorsAreTrue"),
    "forwarded_command_is_appended_twice": MachineBug(forwarded_command_is_appended_twice, 0, "AppliedOnce"),
    "number_of_a_given_up_command_is_used_again": MachineBug(
        number_of_a_given_up_command_is_used_again, 0, "AnswersAreTrue"
    ),
    "snapshot_state_is_not_restored": MachineBug(snapshot_state_is_not_restored, 0, "EqualReplicas"),
    "half_snapshot_ends_node": MachineBug(half_snapshot_ends_node, 20339, "NodesStayUp", run=run_checked),
    "retry_has_a_number_of_its_own": MachineBug(retry_has_a_number_of_its_own, 8, "AppliedOnce"),
    "read_asks_nobody": MachineBug(read_asks_nobody, 0, "ReadsAreCurrent"),
    "read_does_not_wait_for_apply": MachineBug(read_does_not_wait_for_apply, 0, "ReadsAreCurrent"),
    "read_joins_a_round_that_has_begun": MachineBug(read_joins_a_round_that_has_begun, 43, "ReadsAreCurrent"),
    "read_uses_an_old_confirmation": MachineBug(read_uses_an_old_confirmation, 0, "ReadsAreCurrent"),
    "leader_reads_without_a_majority": MachineBug(leader_reads_without_a_majority, 172, "ReadsAreCurrent"),
    "commit_is_heard_of_any_leader": MachineBug(commit_is_heard_of_any_leader, 26, "EqualReplicas"),
    "commit_is_heard_with_a_record_too_many": MachineBug(commit_is_heard_with_a_record_too_many, 2, "NobodyIsBlamed"),
    "result_depends_on_chance": MachineBug(nothing, 0, "EqualReplicas", DiceCounters),
    "snapshot_lacks_a_counter": MachineBug(nothing, 0, "EqualReplicas", ForgetfulCounters),
    "rejected_command_changes_the_state": MachineBug(nothing, 0, "EqualReplicas", HalfRejecting),
    "state_changes_before_a_rejection": MachineBug(nothing, 0, "RejectedUnchanged", HastyRejecting),
    "resumed_command_has_a_number_of_its_own": MachineBug(
        resumed_command_has_a_number_of_its_own, 0, "AppliedOnce", run=run_upgrade
    ),
    "new_command_waits_for_nobody": MachineBug(new_command_waits_for_nobody, 6, "MachineGoesOn", run=run_upgrade),
    "leader_asks_nobody_for_the_version": MachineBug(
        leader_asks_nobody_for_the_version, 6, "MachineGoesOn", run=run_upgrade
    ),
    "voter_that_does_not_answer_counts_as_new": MachineBug(
        voter_that_does_not_answer_counts_as_new, 49, "MachineGoesOn", run=run_upgrade
    ),
    "snapshot_lacks_the_version": MachineBug(snapshot_lacks_the_version, 23, "EqualReplicas", run=run_upgrade),
}
