"""Where the suite helps pykraft over a difference that was decided, so that a test goes on to what else it asserts.

Each is a liberty that the page of the run names with the tests that need it; ``--strict`` runs without any.

- `Paced`: one transition by an expired deadline in a poll. Ours makes those that follow in the same step (spec of the
  core), and a test looks between them.
- Back-offs: a request that timed out, or whose answer changed nothing, is repeated after the retry back-off, which
  Kafka does not wait for (ADR 003). The back-off is over at once, or at the second poll in which nothing happens.
- Batches: a listener gets one batch at a time. Ours gets all that is committed in one call, and tests count what they
  get by the calls.
- Unsent requests: what the node sends between two polls leaves in the next one. It is dropped there if the test let
  more time pass than the node waits for an answer, as Kafka's client would not have sent it.
- Confirmations: a leader, or a follower that hears one, lets the voter confirm a higher epoch (ADR 129), and a leader
  asks a voter that updates its entry for its levels (ADR 066). The voter that the test plays cannot know the question,
  so it is answered here, as that voter would: it is in the epoch of its request, and supports the levels it named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pykraft.core.effects import Effect
from pykraft.core.leader.pending import Update
from pykraft.core.raft import Raft
from pykraft.core.state import Leader
from pykraft.errors import ErrorCode
from pykraft.protocol import api
from pykraft.protocol.messages import ApiKey
from pykraft.rpc.api_versions import KRAFT_VERSION_FEATURE
from pykraft.types import Instant, Uuid

EPOCHS: Final[Mapping[int, str]] = {
    ApiKey.VOTE: "replica_epoch",
    ApiKey.BEGIN_QUORUM_EPOCH: "leader_epoch",
    ApiKey.END_QUORUM_EPOCH: "leader_epoch",
}
"""Where a request has the epoch of its sender."""
NOBODY: Final = -1


class Paced(Raft):
    """A core that passes one deadline in each poll of the test."""

    turns_max = 1

    def _end(self, now: Instant) -> list[Effect]:
        before = type(self.state)
        effects = super()._end(now)
        if type(self.state) is not before:
            self.turns_max = 0
        return effects


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The epoch of a request's sender, and the leader of that epoch if it is the sender."""

    sender_id: int
    epoch: int
    leader_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What only pykraft asks a voter: the request of the node, and where its topic is."""

    header: api.RequestHeader
    topic_name: str
    topic_id: Uuid

    def answer(self, claim: Claim) -> bytes:
        """The frame with which the voter that made this claim answers."""
        epoch, leader_id = claim.epoch, claim.leader_id
        error = int(ErrorCode.FENCED_LEADER_EPOCH)
        body: dict[str, Any]
        if self.header.api_key == ApiKey.FETCH:
            partition: dict[str, Any] = {"partition_index": 0, "error_code": error, "high_watermark": -1}
            partition |= {"records": b"", "current_leader": {"leader_id": leader_id, "leader_epoch": epoch}}
            topic = {"topic_id": self.topic_id, "partitions": [partition]}
            body = {"error_code": 0, "session_id": 0, "responses": [topic]}
        else:
            partition = {"partition_index": 0, "error_code": error, "leader_id": leader_id, "leader_epoch": epoch}
            body = {"error_code": 0, "topics": [{"topic_name": self.topic_name, "partitions": [partition]}]}
        return encode(self.header, body)


def encode(header: api.RequestHeader, body: dict[str, Any]) -> bytes:
    """The frame of an answer."""
    return b"".join(api.encode_response(header.api_key, header.api_version, header.correlation_id, body))


def confirmed_levels(raft: Raft, header: api.RequestHeader) -> bytes | None:
    """The answer to a question for the levels of a voter that updates its entry; None for any other request."""
    state = raft.state
    if header.api_key != ApiKey.API_VERSIONS or not isinstance(state, Leader) or not isinstance(state.change, Update):
        return None
    levels = state.change.voter.kraft_version
    feature = {"name": KRAFT_VERSION_FEATURE, "min_version": levels.min_version, "max_version": levels.max_version}
    return encode(header, {"error_code": 0, "api_keys": [], "supported_features": [feature]})


def refused_epoch(request: bytes, answer: bytes) -> Claim | None:
    """The claim of a request that was refused until its sender confirms it; None for any other answer."""
    header = api.decode_request_header(request)
    field = EPOCHS.get(header.api_key)
    if field is None:
        return None
    _, body = api.decode_response(header.api_key, header.api_version, answer)
    codes = [partition["error_code"] for topic in body["topics"] for partition in topic["partitions"]]
    if codes != [ErrorCode.BROKER_NOT_AVAILABLE]:
        return None
    [topic] = api.decode_request_body(header, request)["topics"]
    [partition] = topic["partitions"]
    sender_id = int(partition["replica_id" if header.api_key == ApiKey.VOTE else "leader_id"])
    leads = header.api_key == ApiKey.BEGIN_QUORUM_EPOCH
    return Claim(sender_id=sender_id, epoch=int(partition[field]), leader_id=sender_id if leads else NOBODY)
