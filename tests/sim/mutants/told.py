"""Bugs in what a node tells clients, operators, voters and applications, and in what it reads from files."""

from dataclasses import replace
from typing import Any

from pykraft.config import NodeConfig
from pykraft.core.election import NEVER_MS
from pykraft.core.leader import serving
from pykraft.core.leader.progress import Progress
from pykraft.core.on import proof, propose, send_requests, transfer
from pykraft.core.on.voters import add_voter
from pykraft.core.on.voters.voter_changes import ACCEPTED
from pykraft.core.state import Leader
from pykraft.host import inbound
from pykraft.host.describe_cluster import CONTROLLERS
from pykraft.host.inbound import ServedApis
from pykraft.host.snapshots.creation import SnapshotTrigger
from pykraft.log import segment
from pykraft.log.index import OFFSET_ENTRY
from pykraft.log.small_files.quarantine_file import QuarantineFile
from tests.sim.mutants.patch import Patch, bug


@bug("KIP-595 §DescribeQuorum", "visited")
def observers_are_not_described(patch: Patch) -> None:
    """DescribeQuorum lists no observers."""
    patch.setattr(Progress, "observers", lambda self, now: ())


@bug("ADR 118", "visited")
def committed_means_written(patch: Patch) -> None:
    """A leader sends what is not committed to a node that asks for committed records only."""
    served = serving.served_end_offset
    patch.setattr(
        serving,
        "served_end_offset",
        lambda replica, leader, request: served(replica, leader, replace(request, is_committed_only=False)),
    )


@bug("KIP-919 (endpoint types)", "producers,visited")
def brokers_are_for_who_asks_for_controllers(patch: Patch) -> None:
    """A listener of clients names brokers to a tool that asks for controllers, and refuses a client."""
    patch.setattr(inbound, "BROKERS", CONTROLLERS)


@bug("ours (ADR 035)", "producers")
def operators_are_served_everywhere(patch: Patch) -> None:
    """The setting that names the listeners for operators has no effect."""
    init = ServedApis.__init__
    patch.setattr(ServedApis, "__init__", lambda self, **given: init(self, **{**given, "operator_listeners": None}))


@bug("KIP-1186 (an answer before the commit)", "voters")
def additions_count_as_answered(patch: Patch) -> None:
    """A leader never answers an AddRaftVoter that waits for the commit."""

    def answered(changed: Any, **fields: Any) -> Any:
        return replace(changed, **{**fields, **({"is_answered": True} if "is_answered" in fields else {})})

    patch.setattr(add_voter, "replace", answered)


@bug("ours (ADR 022)", "emptied")
def waiting_is_reported_each_round(patch: Patch) -> None:
    """A replica without proof logs in each round for which voters it waits."""
    report = proof._report
    patch.setattr(proof, "_report", lambda replica, survey: replace(report(replica, survey), reported=survey.reported))


@bug("Kafka KafkaRaftClient.prepareAppend", "prepared")
def made_room_is_not_used(patch: Patch) -> None:
    """A leader rejects an append although scheduling prepared ones has just made room in the buffer."""
    add, make = propose._add, propose._make_room
    has_made = [False]

    def make_room(*args: Any) -> None:
        has_made[0] = True
        make(*args)

    def add_unless_made(*args: Any) -> Any:
        was_made, has_made[0] = has_made[0], False
        return None if was_made else add(*args)

    patch.setattr(propose, "_make_room", make_room)
    patch.setattr(propose, "_add", add_unless_made)


@bug("ours (ADR 012)", "silent")
def note_of_damage_is_read_without_its_places(patch: Patch) -> None:
    """A restarted node in quarantine has forgotten where its log is damaged."""
    read = QuarantineFile.read
    patch.setattr(QuarantineFile, "read", lambda self: replace(read(self), damages=()))


@bug("KIP-595 §BeginQuorumEpoch (sent again)", "absent")
def leader_announces_itself_once(patch: Patch) -> None:
    """A leader sends BeginQuorumEpoch once: a voter that was down then never hears from it."""
    say = send_requests.say_begin_quorum_epoch

    def once(replica: Any, leader: Leader, now: Any) -> None:
        say(replica, leader, now)
        leader.begin_quorum_deadline_ms = NEVER_MS

    patch.setattr(send_requests, "say_begin_quorum_epoch", once)


@bug("Kafka TimeIndex (entries of 12 bytes)")
def time_index_has_entries_of_the_offset_index(patch: Patch) -> None:
    """Entries of the time index are read with the size of offset index entries, which is smaller."""
    patch.setattr(segment, "TIME_ENTRY", OFFSET_ENTRY)


@bug("KIP-630 §When to Snapshot", "snapshots,asked")
def only_the_last_delivery_counts(patch: Patch) -> None:
    """The application is asked for a snapshot only when a single delivery reaches the size limit."""
    given = SnapshotTrigger.given

    def alone(self: SnapshotTrigger, end: Any, size_bytes: int, high_watermark: Any) -> None:
        self._record_bytes = 0
        given(self, end, size_bytes, high_watermark)

    patch.setattr(SnapshotTrigger, "given", alone)


@bug("Kafka's socket.request.max.bytes (of requests only); ours, until an outside review found it", "small_requests")
def answers_are_limited_like_requests(patch: Patch) -> None:
    """The size limit for requests also applies to answers, so a long answer costs the node its connection."""
    patch.setattr(NodeConfig, "answer_size_bytes_max", property(lambda self: self.request_size_bytes_max))


@bug("ours, until an outside review found it (ADR 030)", "transfers")
def silent_targets_are_waited_for(patch: Patch) -> None:
    """A leader pauses for a transfer to a voter that is down, and may pause again right after that."""
    patch.setattr(transfer, "_refusal_of_pause", lambda *_: ACCEPTED)
