"""One real node under test among two voters that the test plays, and what is visible of it from outside.

This module runs the node and owns its folder and ports. It describes what is visible in words that are the same for
Kafka and for us: ports become names, and times and random ids are left out. Invariant: looking changes nothing in the
node.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Any, Final

from pykraft.config import TEST_TOPIC_ID
from pykraft.errors import ProtocolError
from pykraft.local.child import Child, Children
from pykraft.local.voters import PARTITION, SOURCES, free_ports, voter_properties, write_properties
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.records import scan
from pykraft.protocol.schema import Body
from tests.kafka.differential import snapshots
from tests.kafka.differential.situation import NODE, PEERS, Look
from tests.kafka.differential.voter import Asked, PlayedVoter
from tests.processes.wire import Wire

ANY: Final = 0
NOBODY: Final = -1
FENCED: Final = 74
TOPIC: Final = "__raft_performance_test"
LONG_MS: Final = 600_000
SHORT_MS: Final = 400
FETCHES: Final = (ApiKey.FETCH, ApiKey.FETCH_SNAPSHOT)
TOGETHER_S: Final = 0.3
"""A Fetch that comes so shortly after a Vote may have been sent before it; a follower that is refused sends another."""
START_TIMEOUT_S: Final = 120.0
END_LOOKS: Final = 1_200
"""Twentieths of a second that a node may take to end in order."""
PROPERTIES: Final = {
    "controller.quorum.fetch.timeout.ms": str(LONG_MS),
    "controller.quorum.request.timeout.ms": str(LONG_MS),
    "controller.quorum.append.linger.ms": str(LONG_MS),
    "controller.quorum.retry.backoff.ms": "20",
}
"""Nothing happens by itself: what a node does is what a step made it do. What leads appends no load: it lingers."""
BACKOFF_MS: Final = 100
ELECTION_BACKOFF: Final = "controller.quorum.election.backoff.max.ms"
ELECTION_TIMEOUT: Final = "controller.quorum.election.timeout.ms"
PAUSE: Final = Event()
"""Never set."""


class World:
    """A node that can be started, killed and asked; ``command_of`` makes its command from a properties file."""

    def __init__(
        self,
        name: str,
        children: Children,
        home: Path,
        command_of: Callable[[Path], Sequence[str]],
        *,
        sources: Path = SOURCES,
        backoff_ms: int = BACKOFF_MS,
        trusts_file: bool = False,
    ) -> None:
        home.mkdir()
        self.name = name
        self.home = home
        self.partition = home / "data" / PARTITION
        self.ports = dict(zip((NODE, *PEERS), free_ports(3), strict=True))
        self.voters = {peer: PlayedVoter(self.ports[peer]) for peer in PEERS}
        self._names = {port: f"node {node}" for node, port in self.ports.items()}
        self._children = children
        self._command_of = command_of
        self._sources = sources
        self._backoff_ms = backoff_ms
        self._trusts_file = trusts_file
        """Whether its log ends where its file does, and not where its Fetch says: ADR 023."""
        self._child: Child | None = None
        self._wire: Wire | None = None
        self._expires = False
        self._leadership = (0, NOBODY)
        self._before: list[Asked] = []
        """What waited for an answer at the last look."""
        self._left: list[Asked] = []
        """Requests that the node left behind when it learned of a leader or an epoch: it ignores their answers."""

    @property
    def status(self) -> int | None:
        """Exit status of the node; None while it runs."""
        assert self._child is not None
        return self._child.status

    def start(self, *, election_timeout_ms: int = LONG_MS) -> None:
        """Start it, the first time or again. Errors: AssertionError when it does not serve."""
        self._expires = election_timeout_ms < LONG_MS
        backoff_ms = BACKOFF_MS if self._expires else self._backoff_ms
        extra = {**PROPERTIES, ELECTION_TIMEOUT: str(election_timeout_ms), ELECTION_BACKOFF: str(backoff_ms)}
        values = voter_properties(self.home / "data", node_id=NODE, ports=self.ports, extra=extra)
        config = write_properties(self.home / "server.properties", values)
        environment = {"PYTHONPATH": str(self._sources)}
        self._child = self._children.start(
            self.name, self._command_of(config), self.home / "node.log", environment=environment
        )

    def wait_until_serving(self) -> None:
        """Wait until it answers. Errors: AssertionError when it ends, or does not."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            assert self.status is None, f"{self.name} ended with {self.status}:\n{self.log()[-2_000:]}"
            with suppress(OSError):
                self.ask(ApiKey.API_VERSIONS, 0, {})
                return
            PAUSE.wait(0.05)
        raise AssertionError(f"{self.name} does not serve:\n{self.log()[-2_000:]}")

    def end(self, *, is_kill: bool) -> None:
        """Kill it, or let it end in order. The played voters forget what it asked."""
        assert self._child is not None
        if is_kill:
            self._child.kill()
        else:
            self._child.terminate()
            for _ in range(END_LOOKS):
                self.let_go()
                if self._child.status is not None:
                    break
                PAUSE.wait(0.05)
            self._child.kill()
        self._disconnect()
        for voter in self.voters.values():
            voter.forget()

    def let_go(self) -> None:
        """Answer the EndQuorumEpoch of a node that ends, which waits for that."""
        for voter in self.voters.values():
            for asked in voter.asked():
                if asked.api_key == ApiKey.END_QUORUM_EPOCH:
                    voter.answer(asked, {"error_code": 0, "topics": []})

    def close(self) -> None:
        """End everything that is its."""
        self._disconnect()
        if self._child is not None:
            self._child.kill()
        for voter in self.voters.values():
            voter.close()

    def log(self) -> str:
        """What the node wrote on its own output."""
        return (self.home / "node.log").read_text(errors="replace")

    def ask(self, api_key: ApiKey, version: int, body: Body) -> dict[str, Any]:
        """Send a request and read its answer, in our words. Errors: OSError; ProtocolError."""
        if self._wire is None:
            self._wire = Wire(self.ports[NODE])
        try:
            return dict(self.in_words(self._wire.ask(api_key, version, self.from_words(body))))
        except (OSError, ProtocolError):
            self._disconnect()
            raise

    def asked(self) -> dict[int, list[Asked]]:
        """What the node waits for, by peer; of each kind the newest.

        Fetches are those from `ANY`: who knows no leader, or was refused by it, asks a voter at random.
        """
        found: dict[int, list[Asked]] = {}
        fetches: list[Asked] = []
        for peer, voter in self.voters.items():
            newest = {each.api_key: each for each in voter.asked()}
            fetches += [each for key, each in newest.items() if key == ApiKey.FETCH]
            found[peer] = [newest[key] for key in sorted(newest) if key != ApiKey.FETCH]
        return {ANY: sorted(fetches, key=lambda each: each.arrived_s)[-1:], **found}

    def answer(self, peer: int, api_key: ApiKey, body: Body) -> None:
        """Answer the newest request of this kind, and those before it, which nobody waits for any more, alike."""
        for voter in self.voters.values() if peer == ANY else [self.voters[peer]]:
            for each in voter.asked():
                if each.api_key == api_key:
                    voter.answer(each, self.from_words(body))

    def observe(self) -> Look:
        """Everything that is compared."""
        told = self._state()
        self._answer_old(told["current_leader"])
        asked = self.asked()
        leader = self.voters.get(told["current_leader"]["leader_id"])
        return {
            "told": told,
            "fetches from the leader": leader is not None and all(each in leader.asked() for each in asked[ANY]),
            "asks": {
                peer: [{"api": each.api_key.name, "version": each.version, **self._asks(each)} for each in found]
                for peer, found in asked.items()
                if found
            },
            "quorum-state": self._quorum_state(),
            "log": self._log(),
            "checkpoints": self._checkpoints(),
        }

    def fetches_since(self, time_s: float) -> bool:
        """Whether the node waits for the answer to a Fetch that it sent since then."""
        return any(each.arrived_s >= time_s for each in self.asked()[ANY])

    def in_words(self, value: Any) -> Any:
        """Ports as names of nodes."""
        return _mapped(value, lambda key, cell: self._names.get(cell, cell) if key == "port" else cell)

    def from_words(self, value: Any) -> Any:
        """Names of nodes as ports."""
        ports = {name: port for port, name in self._names.items()}
        return _mapped(value, lambda key, cell: ports.get(cell, cell) if key == "port" else cell)

    def _disconnect(self) -> None:
        if self._wire is not None:
            self._wire.__exit__(None, None, None)
        self._wire = None

    def _state(self) -> dict[str, Any]:
        partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}
        partition |= {"current_leader_epoch": 0, "last_fetched_epoch": 0}
        body = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 1, "isolation_level": 0}
        answer = self.ask(
            ApiKey.FETCH, 13, {**body, "topics": [{"topic_id": TEST_TOPIC_ID, "partitions": [partition]}]}
        )
        assert answer["responses"], f"{self.name}: {answer}"
        [found] = answer["responses"][0]["partitions"]
        return {key: found[key] for key in ("error_code", "current_leader", "high_watermark")}

    def _answer_old(self, now: Mapping[str, int]) -> None:
        """Refuse what nobody waits for any more: Kafka asks a peer nothing else before that, ours does (ADR 006)."""
        everything = [(voter, each) for voter in self.voters.values() for each in voter.asked()]
        epoch = now["leader_epoch"]
        if (epoch, now["leader_id"]) != self._leadership:
            self._leadership = (epoch, now["leader_id"])
            self._left = self._before
        self._before = [each for _, each in everything]
        votes = [each.arrived_s + TOGETHER_S for _, each in everything if each.api_key == ApiKey.VOTE]
        fetches = [each.arrived_s for _, each in everything if each.api_key in FETCHES]
        for voter, each in everything:
            [topic] = each.body["topics"]
            [asked] = topic["partitions"]
            match each.api_key:
                case ApiKey.FETCH | ApiKey.FETCH_SNAPSHOT:
                    is_old = asked["current_leader_epoch"] < epoch or now["leader_id"] == NODE or each in self._left
                    if not is_old and not (votes and each.arrived_s < max(votes)):
                        continue
                    if each.api_key == ApiKey.FETCH_SNAPSHOT:
                        voter.answer(each, snapshots.refusal(topic, FENCED, NOBODY))
                    else:
                        leader = {"leader_id": NOBODY, "leader_epoch": asked["current_leader_epoch"]}
                        partition = {"partition_index": 0, "error_code": FENCED, "current_leader": leader}
                        partition |= {"high_watermark": -1, "records": b""}
                        names = {key: topic[key] for key in ("topic", "topic_id") if key in topic}
                        responses = [{**names, "partitions": [partition]}]
                        voter.answer(each, {"error_code": 0, "session_id": 0, "responses": responses})
                case _:
                    of = asked["replica_epoch" if each.api_key == ApiKey.VOTE else "leader_epoch"]
                    follows = now["leader_id"] == NODE or (fetches and max(fetches) > max(votes, default=0))
                    follows = follows or (now["leader_id"] != NOBODY and asked.get("pre_vote") is False)
                    # Who starts as a candidate goes back to pre-votes when its election is over. Nothing tells when.
                    follows = follows or (self._expires and asked.get("pre_vote") is False)
                    if of < epoch or (each.api_key == ApiKey.VOTE and follows):
                        voter.answer(each, nothing_new(each.api_key, of))

    def _asks(self, each: Asked) -> dict[str, Any]:
        body: dict[str, Any] = without(self.in_words(each.body), UNTOLD)
        if self._trusts_file and each.api_key == ApiKey.FETCH:
            [asked] = body["topics"][0]["partitions"]
            begin = max(map(snapshots.end_offset_of, self._checkpoints()), default=0)
            end = max((end for _, end, *_ in self._log()), default=begin)
            asked["fetch_offset"] = min(asked["fetch_offset"], end)
        return {"body": body}

    def _checkpoints(self) -> list[str]:
        return sorted(path.name for path in self.partition.glob("*.checkpoint"))

    def _quorum_state(self) -> Any:
        try:
            return json.loads((self.partition / "quorum-state").read_text())
        except (OSError, ValueError):
            return None

    def _log(self) -> list[tuple[Any, ...]]:
        """Batches as they are on disk; of those that the node made itself, without time and CRC."""
        found: list[tuple[Any, ...]] = []
        for segment in sorted(self.partition.glob("*.log")):
            try:
                for _, header in scan(segment.read_bytes(), verify_crc=False):
                    place = (header.base_offset, header.end_offset, header.epoch)
                    found.append((*place, "control") if header.is_control else (*place, header.crc))
            except ProtocolError:
                pass
        return found


def nothing_new(api_key: ApiKey, epoch: int) -> dict[str, Any]:
    """The answer to an old Vote, BeginQuorumEpoch or EndQuorumEpoch: it grants nothing and tells nothing."""
    partition = {"partition_index": 0, "error_code": 0, "leader_id": NOBODY, "leader_epoch": epoch}
    if api_key == ApiKey.VOTE:
        partition["vote_granted"] = False
    return {"error_code": 0, "topics": [{"topic_name": TOPIC, "partitions": [partition]}]}


UNTOLD: Final = frozenset(
    {
        *("max_wait_ms", "min_bytes", "max_bytes", "partition_max_bytes", "session_id", "session_epoch", "rack_id"),
        *("forgotten_topics_data", "isolation_level", "high_watermark", "replica_epoch_unused"),
    }
)
"""Fields of the node's own requests that say how much it takes at one time, and nothing of Raft."""


def without(value: Any, keys: frozenset[str]) -> Any:
    """The same without these fields, and with bytes as hexadecimal digits."""
    match value:
        case Mapping():
            return {key: without(cell, keys) for key, cell in value.items() if key not in keys}
        case list() | tuple():
            return [without(cell, keys) for cell in value]
        case bytes():
            return value.hex()
        case _:
            return value


def _mapped(value: Any, change: Callable[[str, Any], Any], key: str = "") -> Any:
    match value:
        case Mapping():
            return {name: _mapped(cell, change, name) for name, cell in value.items()}
        case list() | tuple():
            return [_mapped(cell, change, key) for cell in value]
        case _:
            return change(key, value)
