"""Requests that no node of a scenario sends: an operator's, a Java voter's, an impostor's.

Each takes its numbers by name; what is not named has the value that a correct sender would use.

    vote            epoch id disk end last    the candidate is ``id``, its log ends at ``end``, in epoch ``last``
    pre-vote        epoch id disk end last
    begin           epoch leader at more      BeginQuorumEpoch: the leader listens where node ``at`` does; with
                                              ``more=1`` on a second listener, too
    end             epoch leader first        EndQuorumEpoch: ``first`` is the first successor
    fetch           epoch id disk end last wait hw
    fetch-snapshot  epoch id disk end last    of the snapshot ``end``/``last``, from its first byte
    describe                                  DescribeQuorum
    add-voter       id disk ack               ``ack=0``: answered before the record is committed
    remove-voter    id disk
    update-voter    epoch id disk at max      it says it is where ``at`` is, and supports levels 0 to ``max``
    transfer        id timeout

``disk=1`` is another directory id than the voter ``id`` has. A Fetch without ``id`` is that of an observer without one.
"""

from collections.abc import Callable, Mapping

from pykraft.core import messages
from pykraft.types import Endpoint, Epoch, Listeners, NodeId, Offset, OffsetAndEpoch, ReplicaKey, VersionRange
from tests.scenarios.members import directory_id

Numbers = Mapping[str, int]


def _key(numbers: Numbers) -> ReplicaKey:
    node_id = numbers.get("id", 3)
    return ReplicaKey(NodeId(node_id), directory_id(node_id, numbers.get("disk", 0)))


def _listeners(node_id: int) -> Listeners:
    return Listeners((("CONTROLLER", Endpoint(f"n{node_id}", 9_000 + node_id)),))


def _place(numbers: Numbers) -> OffsetAndEpoch:
    return OffsetAndEpoch(Offset(numbers.get("end", 0)), Epoch(numbers.get("last", 0)))


def _vote(numbers: Numbers, *, pre_vote: bool) -> messages.VoteRequest:
    return messages.VoteRequest(
        epoch=Epoch(numbers["epoch"]), candidate=_key(numbers), voter=None, last=_place(numbers), pre_vote=pre_vote
    )


def _begin(numbers: Numbers) -> messages.BeginQuorumEpochRequest:
    leader_id = NodeId(numbers["leader"])
    listeners = _listeners(numbers.get("at", leader_id))
    more = (("REPLICATION", endpoint) for _, endpoint in listeners if numbers.get("more"))
    return messages.BeginQuorumEpochRequest(
        epoch=Epoch(numbers["epoch"]), leader_id=leader_id, voter=None, listeners=Listeners((*listeners, *more))
    )


def _end(numbers: Numbers) -> messages.EndQuorumEpochRequest:
    return messages.EndQuorumEpochRequest(
        epoch=Epoch(numbers["epoch"]),
        leader_id=NodeId(numbers["leader"]),
        successors=(ReplicaKey(NodeId(numbers["first"]), directory_id(numbers["first"], 0)),),
    )


def _fetch(numbers: Numbers) -> messages.FetchRequest:
    return messages.FetchRequest(
        replica=_key(numbers) if "id" in numbers else None,
        epoch=Epoch(numbers["epoch"]),
        fetch_offset=Offset(numbers.get("end", 0)),
        last_fetched_epoch=Epoch(numbers.get("last", 0)),
        wait_ms_max=numbers.get("wait", 500),
        size_bytes_max=1_048_576,
        high_watermark=numbers.get("hw"),
    )


def _fetch_snapshot(numbers: Numbers) -> messages.FetchSnapshotRequest:
    return messages.FetchSnapshotRequest(
        replica=_key(numbers),
        epoch=Epoch(numbers["epoch"]),
        snapshot_id=_place(numbers),
        position=0,
        size_bytes_max=1_048_576,
    )


def _add_voter(numbers: Numbers) -> messages.AddVoterRequest:
    key = _key(numbers)
    return messages.AddVoterRequest(
        voter=key, listeners=_listeners(key.id), timeout_ms=1_000, ack_when_committed=bool(numbers.get("ack", 1))
    )


def _remove_voter(numbers: Numbers) -> messages.RemoveVoterRequest:
    return messages.RemoveVoterRequest(voter=_key(numbers))


def _transfer(numbers: Numbers) -> messages.TransferLeadershipRequest:
    return messages.TransferLeadershipRequest(target_id=NodeId(numbers["id"]), timeout_ms=numbers.get("timeout", 1_000))


def _update_voter(numbers: Numbers) -> messages.UpdateVoterRequest:
    key = _key(numbers)
    return messages.UpdateVoterRequest(
        epoch=Epoch(numbers["epoch"]),
        voter=key,
        listeners=_listeners(numbers.get("at", key.id)),
        kraft_version=VersionRange(0, numbers.get("max", 1)),
    )


REQUESTS: Mapping[str, Callable[[Numbers], messages.Request]] = {
    "vote": lambda numbers: _vote(numbers, pre_vote=False),
    "pre-vote": lambda numbers: _vote(numbers, pre_vote=True),
    "begin": _begin,
    "end": _end,
    "fetch": _fetch,
    "fetch-snapshot": _fetch_snapshot,
    "describe": lambda _: messages.DescribeQuorumRequest(),
    "add-voter": _add_voter,
    "remove-voter": _remove_voter,
    "update-voter": _update_voter,
    "transfer": _transfer,
}
