"""The possible steps: a request of any kind, an answer to the node's own request, a kill, a restart, time.

A step is made from a random generator and from what both nodes look like, which is the same when a step begins. So a
seed is a sequence, and each node gets the same one.

Invariant: a step is data; it names peers and not ports. Left out is only what Kafka is known to end at (`deviations`).
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from pykraft.config import TEST_CLUSTER_ID, TEST_TOPIC_ID
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.records import encode_batch, encode_control_batch
from pykraft.types import ZERO_UUID, Epoch, LeaderChange, NodeId, Offset, Uuid
from tests.kafka.differential import snapshots
from tests.kafka.differential.situation import NODE, PEERS, Situation
from tests.kafka.differential.world import TOPIC

STRANGER: Final = 9
OTHER_DIRECTORY: Final = Uuid(b"another director")
TIMESTAMP_MS: Final = 1_700_000_000_000
HOST: Final = "127.0.0.1"
GOODBYES: Final = 0.4
"""How often, instead of any other request, where leaders leave often."""
NOT_LEADER, FENCED, UNKNOWN_EPOCH, OUT_OF_RANGE = 6, 74, 75, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Somebody asks the node."""

    api_key: ApiKey
    version: int
    body: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A peer answers what the node has asked."""

    peer: int
    api_key: ApiKey
    body: dict[str, Any]
    asked: dict[str, Any] = field(default_factory=dict, repr=False)
    """What it answers."""
    of_leader: bool = field(default=False, repr=False)

    def fits(self, now: Situation) -> bool:
        """Whether the node waits for this answer: a sequence that was shortened may have led elsewhere."""
        waiting = [each["body"] for each in now.look["asks"].get(self.peer, ()) if each["api"] == self.api_key.name]
        return self.asked in waiting and self.of_leader == now.look["fetches from the leader"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """The node dies, or ends in order, and is restarted; with ``expires`` it waits for a leader only shortly."""

    is_kill: bool
    expires: bool = False


Step = Request | Answer | Restart


def next_step(dice: Random, now: Situation) -> Step:
    """One of all steps that are possible now."""
    asked = [(peer, each) for peer, found in now.look["asks"].items() for each in found]
    if asked and dice.random() < 0.5:
        peer, each = dice.choice(asked)
        answer = ANSWERS[each["api"]](dice, now, peer, each["body"])
        return replace(answer, asked=each["body"], of_leader=now.look["fetches from the leader"])
    if now.is_of_goodbyes and now.leader in PEERS and not now.hears_leader and dice.random() < GOODBYES:
        return goodbye(dice, now)
    make = dice.choices(list(REQUESTS), weights=list(REQUESTS.values()))[0]
    return make(dice, now)


def _epoch(dice: Random, now: Situation) -> int:
    step = dice.choice((-1, 0, 0, 0, 1, 1, 2, 5))
    return max(0, now.epoch + (min(step, 0) if now.hears_leader else step))


def _leader(dice: Random, now: Situation, epoch: int) -> int:
    """Who leads in this epoch; seldom a second one, since that ends Kafka's node."""
    if epoch == now.epoch and now.leader in PEERS and dice.random() < 0.97:
        return now.leader
    return dice.choice(PEERS)


def _cluster(dice: Random) -> str | None:
    return dice.choice((TEST_CLUSTER_ID,) * 12 + (None, "another-cluster"))


def _directory(dice: Random) -> Uuid:
    return dice.choice((ZERO_UUID,) * 4 + (OTHER_DIRECTORY,))


def _topics(
    dice: Random, partition: dict[str, Any], *, index: str = "partition_index", name: str = "topic_name"
) -> Any:
    topic = dice.choice((TOPIC,) * 15 + ("another",))
    number = dice.choice((0,) * 15 + (1,))
    return [{name: topic, "partitions": [{index: number, **partition}]}]


def vote(dice: Random, now: Situation) -> Step:
    """A vote or a pre-vote is asked for."""
    version = dice.choice((0, 1, 2, 2))
    epoch, end = now.end
    last_epoch, last = dice.choice(
        ((epoch, end), (epoch, end), (epoch, end + 2), (epoch + 1, end), (epoch, max(0, end - 1)), (0, 0))
    )
    replica_epoch = max(_epoch(dice, now), last_epoch)
    if now.hears_leader:
        replica_epoch, last_epoch = min(replica_epoch, now.epoch), min(last_epoch, now.epoch)
    is_pre = version == 2 and dice.random() < 0.5 and now.epoch not in now.left  # ours then grants it: ADR 004
    partition = {
        "replica_epoch": replica_epoch,
        "replica_id": dice.choice((2, 2, 3, 3, 3, STRANGER)),
        "last_offset_epoch": last_epoch,
        "last_offset": last,
        "pre_vote": is_pre,
        "replica_directory_id": _directory(dice) if version else ZERO_UUID,
        "voter_directory_id": _directory(dice) if version else ZERO_UUID,
    }
    voter = dice.choice((NODE,) * 8 + (-1, 2)) if version else -1
    body = {"cluster_id": _cluster(dice), "voter_id": voter, "topics": _topics(dice, partition)}
    return Request(api_key=ApiKey.VOTE, version=version, body=body)


def begin_quorum_epoch(dice: Random, now: Situation) -> Step:
    """Somebody says that it leads."""
    version = dice.choice((0, 1))
    epoch = _epoch(dice, now)
    leader = _leader(dice, now, epoch)
    partition = {
        "leader_id": leader,
        "leader_epoch": epoch,
        "voter_directory_id": _directory(dice) if version else ZERO_UUID,
    }
    listeners = [{"name": "PLAINTEXT", "host": HOST, "port": f"node {leader}"}] if version else []
    body = {
        "cluster_id": _cluster(dice),
        "voter_id": dice.choice((NODE,) * 8 + (-1, 2)) if version else -1,
        "topics": _topics(dice, partition),
        "leader_endpoints": listeners,
    }
    return Request(api_key=ApiKey.BEGIN_QUORUM_EPOCH, version=version, body=body)


def end_quorum_epoch(dice: Random, now: Situation) -> Step:
    """A leader goes, and says who should follow it."""
    version = dice.choice((0, 1))
    epoch = _epoch(dice, now)
    if now.hears_leader:
        epoch = min(epoch, now.epoch - 1)
    leader = _leader(dice, now, epoch)
    successors = dice.choice(([], [NODE], [NODE, 3], [3, NODE], [2, 3], [3, 2, NODE], [NODE, NODE]))
    partition: dict[str, Any] = {"leader_id": leader, "leader_epoch": epoch}
    if version:
        partition["preferred_candidates"] = [
            {"candidate_id": each, "candidate_directory_id": ZERO_UUID} for each in successors
        ]
    else:
        partition["preferred_successors"] = successors
    body = {"cluster_id": _cluster(dice), "topics": _topics(dice, partition), "leader_endpoints": []}
    return Request(api_key=ApiKey.END_QUORUM_EPOCH, version=version, body=body)


def goodbye(dice: Random, now: Situation) -> Step:
    """The leader that the node follows goes; one that has restarted knows no successors."""
    partition = {"leader_id": now.leader, "leader_epoch": now.epoch}
    successors = dice.choice(([], [], [NODE], [3, NODE], [2, 3]))
    candidates = [{"candidate_id": each, "candidate_directory_id": ZERO_UUID} for each in successors]
    topics = [
        {"topic_name": TOPIC, "partitions": [{"partition_index": 0, **partition, "preferred_candidates": candidates}]}
    ]
    body = {"cluster_id": TEST_CLUSTER_ID, "topics": topics, "leader_endpoints": []}
    return Request(api_key=ApiKey.END_QUORUM_EPOCH, version=1, body=body)


def fetch(dice: Random, now: Situation) -> Step:
    """A follower or an observer fetches."""
    version = dice.choice((12, 13, 14, 15, 16, 17))
    replica = dice.choice((2, 2, 3, 3, -1, STRANGER))
    epoch, end = now.end
    offset, last_epoch = dice.choice(
        (
            (end, epoch),
            (end, epoch),
            (0, 0),
            (max(0, end - 1), epoch),
            (end + 3, epoch),
            (end, max(0, epoch - 1)),
            (end, epoch + 1),
        )
    )
    partition = {
        "partition": dice.choice((0,) * 15 + (1,)),
        "current_leader_epoch": dice.choice((now.epoch,) * 6 + (now.epoch - 1, now.epoch + 1, -1)),
        "fetch_offset": offset,
        "last_fetched_epoch": last_epoch,
        "log_start_offset": -1,
        "partition_max_bytes": 1_000_000,
        "replica_directory_id": _directory(dice) if version >= 17 else ZERO_UUID,
    }
    names = {"topic": dice.choice((TOPIC,) * 15 + ("another",))} if version == 12 else {"topic_id": TEST_TOPIC_ID}
    body: dict[str, Any] = {"cluster_id": _cluster(dice), "max_wait_ms": 0, "min_bytes": 0, "isolation_level": 0}
    body["topics"] = [{**names, "partitions": [partition]}]
    if version >= 15:
        body["replica_state"] = {"replica_id": replica, "replica_epoch": -1}
    else:
        body["replica_id"] = replica
    return Request(api_key=ApiKey.FETCH, version=version, body=body)


def restart(dice: Random, _: Situation) -> Step:
    """It dies or ends, and comes back."""
    return Restart(is_kill=dice.random() < 0.7)


def answer_fetch(dice: Random, now: Situation, peer: int, body: dict[str, Any]) -> Answer:
    """The leader, or who was taken for it, answers a Fetch."""
    asked = body["topics"][0]["partitions"][0]
    epoch, end = int(asked["current_leader_epoch"]), int(asked["fetch_offset"])
    partition: dict[str, Any] = {
        "partition_index": 0,
        "error_code": 0,
        "high_watermark": now.high_watermark,
        "records": b"",
    }
    leader = now.leader if now.leader in PEERS else dice.choice(PEERS)
    partition["current_leader"] = {"leader_id": leader, "leader_epoch": epoch}
    is_another = not now.look["fetches from the leader"]
    kinds: tuple[str, ...] = ("records",) * 6 + ("empty", "empty", "diverging", "diverging")
    kinds += ("not leader", "fenced", "corrupt")
    if epoch not in now.agreed:
        kinds += ("diverging",) * 4  # only at the beginning of an epoch, so it would be rare
    if now.has_snapshots:
        kinds += ("snapshot",) * 6
    kind = dice.choice(("empty", "empty", "not leader", "fenced") if is_another else kinds)
    match kind:
        case "records":
            records, last = _batches(dice, end, max(now.end[0], 1), epoch)
            partition |= {
                "records": records,
                "high_watermark": dice.randint(now.high_watermark, max(now.high_watermark, last)),
            }
        case "corrupt":
            records, _ = _batches(dice, end, max(now.end[0], 1), epoch, count=1)
            partition["records"] = records[:-1] + bytes([records[-1] ^ 1])
        case "empty":
            partition["high_watermark"] = dice.randint(now.high_watermark, max(now.high_watermark, end))
        case "diverging":
            low = now.high_watermark  # ours gives a leader up that cuts a batch that begins below it: ADR 023 and 028
            ends = [(each[2], offset) for each in now.log if each[0] >= low for offset in range(each[0], each[1] + 1)]
            ends += [(each[2], each[1]) for each in now.log if each[0] < low <= each[1]]
            ends = [each for each in ends if each[1] < end and epoch not in now.agreed]
            if ends:
                cut_epoch, cut = dice.choice(ends)
                partition["diverging_epoch"] = {"epoch": cut_epoch, "end_offset": cut}
        case "snapshot":
            partition["snapshot_id"] = snapshots.new_id(dice, now, end, epoch)
        case "not leader":
            other = dice.choice((-1, 5 - leader))
            partition["error_code"] = NOT_LEADER
            partition["current_leader"] = {
                "leader_id": other,
                "leader_epoch": max(epoch, now.epoch) + dice.choice((1, 2)),
            }
        case _:
            partition["error_code"] = dice.choice((FENCED, UNKNOWN_EPOCH))
            partition["current_leader"] = {"leader_id": -1, "leader_epoch": epoch + dice.choice((0, 1))}
    topic: dict[str, Any] = {"partitions": [partition]}
    topic |= {key: body["topics"][0][key] for key in ("topic", "topic_id") if key in body["topics"][0]}
    if "topic_id" in body["topics"][0]:
        topic["topic_id"] = bytes.fromhex(body["topics"][0]["topic_id"])
    return Answer(peer=peer, api_key=ApiKey.FETCH, body={"error_code": 0, "session_id": 0, "responses": [topic]})


def _batches(dice: Random, offset: int, low: int, high: int, *, count: int = 3) -> tuple[bytes, int]:
    """Batches of epochs that do not fall, up to this one; and where they end."""
    parts: list[bytes] = []
    for _ in range(dice.randint(1, count)):
        low, base_offset = dice.randint(min(low, high), high), Offset(offset)
        if dice.random() < 0.2:
            change = LeaderChange(
                leader_id=NodeId(2), voters=tuple(map(NodeId, (NODE, *PEERS))), granting_voters=(NodeId(2),)
            )
            batch = encode_control_batch([change], base_offset=base_offset, epoch=Epoch(low), timestamp_ms=TIMESTAMP_MS)
            parts.append(batch.data)
            offset += 1
            continue
        values = [dice.randbytes(dice.randint(1, 20)) for _ in range(dice.randint(1, 4))]
        parts.append(encode_batch(values, base_offset=base_offset, epoch=Epoch(low), timestamp_ms=TIMESTAMP_MS).data)
        offset += len(values)
    return b"".join(parts), offset


def _result(peer: int, api_key: ApiKey, partition: dict[str, Any]) -> Answer:
    body = {"error_code": 0, "topics": [{"topic_name": TOPIC, "partitions": [{"partition_index": 0, **partition}]}]}
    return Answer(peer=peer, api_key=api_key, body=body)


def answer_vote(dice: Random, now: Situation, peer: int, body: dict[str, Any]) -> Answer:
    """A voter grants its vote, or not, or knows better."""
    asked = body["topics"][0]["partitions"][0]
    epoch = int(asked["replica_epoch"])
    partition = {"error_code": 0, "leader_id": -1, "leader_epoch": epoch, "vote_granted": True}
    kind = dice.choice(("granted",) * 5 + ("denied", "denied", "newer", "leads"))
    if kind == "denied" and not (asked.get("pre_vote") and epoch in now.left):
        partition["vote_granted"] = False
    elif kind == "denied":
        pass  # ours asks again, since the voter may not know yet that the leader goes: ADR 014
    elif kind != "granted":
        leader = -1 if kind == "newer" else dice.choice(PEERS)
        newer = max(epoch, now.epoch) + dice.choice((1, 3))
        partition |= {"vote_granted": False, "leader_epoch": newer, "leader_id": leader}
    return _result(peer, ApiKey.VOTE, partition)


def answer_begin(dice: Random, now: Situation, peer: int, body: dict[str, Any]) -> Answer:
    """A voter has heard who leads, or knows better."""
    epoch = int(body["topics"][0]["partitions"][0]["leader_epoch"])
    if dice.random() < 0.8:
        return _result(peer, ApiKey.BEGIN_QUORUM_EPOCH, {"error_code": 0, "leader_id": NODE, "leader_epoch": epoch})
    newer = {"error_code": FENCED, "leader_id": dice.choice((-1, *PEERS)), "leader_epoch": max(epoch, now.epoch) + 1}
    return _result(peer, ApiKey.BEGIN_QUORUM_EPOCH, newer)


def answer_end(dice: Random, now: Situation, peer: int, body: dict[str, Any]) -> Answer:
    """A voter has heard that the leader goes."""
    del dice, now
    epoch = int(body["topics"][0]["partitions"][0]["leader_epoch"])
    return _result(peer, ApiKey.END_QUORUM_EPOCH, {"error_code": 0, "leader_id": -1, "leader_epoch": epoch})


def answer_fetch_snapshot(dice: Random, _: Situation, peer: int, body: dict[str, Any]) -> Answer:
    """The leader sends its snapshot, or has it no more."""
    return Answer(peer=peer, api_key=ApiKey.FETCH_SNAPSHOT, body=snapshots.answer(dice, peer, body))


REQUESTS: Final[dict[Callable[[Random, Situation], Step], int]] = {
    vote: 25,
    begin_quorum_epoch: 25,
    end_quorum_epoch: 10,
    fetch: 15,
    restart: 4,
}
ANSWERS: Final[dict[str, Callable[[Random, Situation, int, dict[str, Any]], Answer]]] = {
    "FETCH": answer_fetch,
    "VOTE": answer_vote,
    "BEGIN_QUORUM_EPOCH": answer_begin,
    "END_QUORUM_EPOCH": answer_end,
    "FETCH_SNAPSHOT": answer_fetch_snapshot,
}
