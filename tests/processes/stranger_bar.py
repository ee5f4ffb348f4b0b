"""The stranger's bar: who knows all public ids and sends every API to each node at a rate must not stop a quorum.

    python -m tests.processes.stranger_bar --seconds 300 --rate 50

A static and a dynamic quorum of three real nodes work quietly for a while, then under the attack: all APIs mixed, then
each API alone at the full rate, for the same time each. DescribeQuorum tells the stranger the ids, directory ids, epoch
and leader; it puts them into each request that has such a field. It also listens, names its own port as an endpoint,
and answers whatever arrives there with the last epoch but one.

Left out is what a protocol without authentication cannot withstand (docs/threat-model.md): a Fetch that acknowledges,
so each asks from the beginning, and requests of operators, which ``pykraft.operator.listeners=none`` switches off here.

Oracles: in each of these times the quorum acknowledges at least half as much as before, no node ends, no epoch rises by
more than 1,000, and no node takes more than 150 MiB.
"""

import argparse
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any, Final

from lab.nodes.cluster import Cluster
from pykraft.config import TEST_TOPIC_NAME
from pykraft.local.child import Children
from pykraft.local.voters import HOST, free_ports
from pykraft.log.small_files.quorum_state import FILE_NAME, parse_quorum_state
from pykraft.protocol.api import decode_request_header, encode_response
from pykraft.protocol.messages import API_VERSIONS, APIS, ApiKey
from pykraft.protocol.schema import Body
from pykraft.rpc import api_versions
from pykraft.types import EPOCH_MAX, KRAFT_VERSIONS
from tests.processes.attack import peak_memory_mib
from tests.processes.rpc_edges import plain
from tests.processes.wire import Wire, framed, request

MEMORY_MIB_MAX: Final = 150.0
EPOCHS_MAX: Final = 1_000
SHARE_MIN: Final = 0.5
QUIET_SHARE: Final = 0.2
"""The quiet time as a part of the time of the attack."""
LOOK_S: Final = 0.5
WAIT_S: Final = 5.0
FAR: Final = EPOCH_MAX - 1
OFFSET_MAX: Final = 2**62
PRE_VOTE_SHARE: Final = 0.2
MIXED: Final = "all APIs"
ADDRESSED: Final = frozenset({ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH})
"""Their voter id and voter directory id are those of the node that they are sent to."""
PROPERTIES: Final = {"pykraft.operator.listeners": "none"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """What one quorum did, quietly and under the attack."""

    kind: str
    quiet_per_s: float
    attacked_per_s: Mapping[str, float]
    """While all APIs came mixed, and while each came alone."""
    epochs: int
    """By how much the highest epoch of any node rose."""
    leaders: int
    """How many leaders were elected under the attack."""
    memory_mib: float
    sent: int
    ended: tuple[int, ...] = ()
    """Nodes that ended."""

    def problems(self, *, is_rate_judged: bool) -> list[str]:
        """What is not as it must be."""
        found = [f"node {node_id} ended" for node_id in self.ended]
        if self.epochs > EPOCHS_MAX:
            found.append(f"the epoch rose by {self.epochs}")
        if self.memory_mib > MEMORY_MIB_MAX:
            found.append(f"a node took {self.memory_mib:.0f} MiB")
        slow = [name for name, rate in self.attacked_per_s.items() if rate < SHARE_MIN * self.quiet_per_s]
        if is_rate_judged and slow:
            found.append(f"less than half of the quiet rate was acknowledged under {', '.join(slow)}")
        return found

    def __str__(self) -> str:
        worst = min(self.attacked_per_s, key=lambda name: self.attacked_per_s[name])
        mean_per_s = sum(self.attacked_per_s.values()) / len(self.attacked_per_s)
        rates = f"{self.quiet_per_s:.0f} acknowledgements a second quietly, {mean_per_s:.0f} under attack"
        rates += f", fewest under {worst}: {self.attacked_per_s[worst]:.0f}"
        rest = f"epochs risen by {self.epochs}, leaders elected {self.leaders}, at most {self.memory_mib:.0f} MiB"
        return f"{self.kind}: {rates}; {rest}, {self.sent} frames sent"


class Stranger:
    """Sends at a rate to each node from a thread each, and listens at a port of its own."""

    def __init__(self, ports: dict[int, int], rate: float, seed: int) -> None:
        self._ports = ports
        self._rate = rate
        self._random = Random(seed)
        self._quorum = described(ports)
        self._own = socket.create_server((HOST, free_ports(1)[0]))
        self._over = Event()
        self.keys: Sequence[ApiKey] = list(ApiKey)
        self.sent = 0
        acts: list[Callable[[], None]] = [self._listen, *(partial(self._send_to, node_id) for node_id in ports)]
        self._threads = [Thread(target=act, daemon=True) for act in acts]

    @contextmanager
    def acting(self) -> Iterator[None]:
        """It acts as long as this block lasts."""
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._own.close()
            for thread in self._threads[1:]:
                thread.join()

    def learn_leader(self) -> None:
        """Learn the present leader and its epoch."""
        self._quorum = described(self._ports) or self._quorum

    def forged(self, key: ApiKey, node_id: int) -> bytes:
        """A request to this node of this API with real ids in it, in one of its versions."""
        versions = APIS[key].request.versions
        version = self._random.randint(versions.min, versions.max)
        body = plain(APIS[key].request.body, version)
        voters = self._quorum["current_voters"]
        self._fill(body, key, self._random.choice(voters))
        if key in ADDRESSED:
            [target] = [voter for voter in voters if voter["replica_id"] == node_id]
            _address(body, target)
        return request(key, version, body)

    def _fill(self, holder: Any, key: ApiKey, voter: Body) -> None:
        if isinstance(holder, list):
            for each in holder:
                if isinstance(each, dict | list):
                    self._fill(each, key, voter)
            return
        for name, value in holder.items():
            if isinstance(value, dict | list):
                self._fill(value, key, voter)
            elif (known := self._known(name, key, voter)) is not None:
                holder[name] = known

    def _known(self, name: str, key: ApiKey, voter: Body) -> Any:
        """What the stranger writes into this field; None: what `plain` has."""
        epoch, leader_id = self._quorum["leader_epoch"], self._quorum["leader_id"]
        is_campaign = key in {ApiKey.VOTE, ApiKey.BEGIN_QUORUM_EPOCH}
        ahead = self._random.choice((1, 1, 2, 100)) if is_campaign else 0
        match name:
            case "leader_epoch" | "replica_epoch" | "current_leader_epoch":
                return epoch + ahead
            case "leader_id":
                return voter["replica_id"] if is_campaign else leader_id
            case "replica_id" | "voter_id" | "candidate_id":
                return voter["replica_id"]
            case "pre_vote":
                return self._random.random() < PRE_VOTE_SHARE
            case "replica_directory_id" | "voter_directory_id" | "candidate_directory_id":
                return voter.get("replica_directory_id")
            case "last_offset":
                return OFFSET_MAX
            case "last_offset_epoch":
                return epoch
            case "port":
                return self._own.getsockname()[1]
            case _:
                return None

    def _send_to(self, node_id: int) -> None:
        """Send one request after another; a node may close the connection, and then there is another one."""
        due_s = time.monotonic()
        while not self._over.is_set():
            with suppress(OSError), Wire(self._ports[node_id]) as wire:
                wire.wait_at_most(0.001)
                while not self._over.wait(max(0.0, due_s - time.monotonic())):
                    due_s += 1 / self._rate
                    keys = self.keys
                    wire.send(framed(self.forged(keys[self.sent % len(keys)], node_id)))
                    self.sent += 1
                    with suppress(TimeoutError):
                        wire.receive()
            due_s = max(due_s, time.monotonic())

    def _listen(self) -> None:
        while not self._over.is_set():
            with suppress(OSError):
                connection, _ = self._own.accept()
                Thread(target=_answer_all, args=(connection,), daemon=True).start()


def _address(holder: Any, target: Body) -> None:
    for each in holder if isinstance(holder, list) else [holder]:
        for name, value in each.items() if isinstance(each, dict) else ():
            if name == "voter_id":
                each[name] = target["replica_id"]
            elif name == "voter_directory_id":
                each[name] = target.get("replica_directory_id") or value
            elif isinstance(value, dict | list):
                _address(value, target)


def _answer_all(connection: socket.socket) -> None:
    with suppress(OSError, AssertionError), connection, connection.makefile("rb") as stream:
        while size := stream.read(4):
            header = decode_request_header(stream.read(int.from_bytes(size, "big")))
            key = ApiKey(header.api_key)
            if key is ApiKey.API_VERSIONS:
                body = api_versions.response_to_wire(header.api_version, API_VERSIONS, KRAFT_VERSIONS)
            else:
                body = plain(APIS[key].response.body, header.api_version)
                _name_far(body)
            answer = encode_response(key, header.api_version, header.correlation_id, body)
            connection.sendall(framed(b"".join(bytes(part) for part in answer)))


def _name_far(holder: Any) -> None:
    for each in holder if isinstance(holder, list) else [holder]:
        for name, value in each.items() if isinstance(each, dict) else ():
            if name == "leader_epoch":
                each[name] = FAR
            elif isinstance(value, dict | list):
                _name_far(value)


def described(ports: dict[int, int]) -> Body:
    """What the leader says of its quorum; empty when none answers."""
    body = {"topics": [{"topic_name": TEST_TOPIC_NAME, "partitions": [{"partition_index": 0}]}]}
    for port in ports.values():
        with suppress(OSError), Wire(port) as wire:
            wire.wait_at_most(WAIT_S)
            [found] = wire.ask(ApiKey.DESCRIBE_QUORUM, 2, body)["topics"][0]["partitions"]
            if not found["error_code"]:
                return dict(found)
    return {}


def raise_bar(
    folder: Path,
    *,
    is_dynamic: bool,
    seconds: float,
    rate: float,
    seed: int = 0,
    alone: Sequence[ApiKey] = tuple(ApiKey),
) -> Bar:
    """Run one quorum, quietly and then under the attack; the APIs of ``alone`` come by themselves, too."""
    with Children() as children:
        cluster = Cluster(children, folder, is_dynamic=is_dynamic, properties=PROPERTIES)
        cluster.start()
        journal = cluster.journal
        journal.wait_for_acknowledged(1_000, since=0)
        quiet_per_s = _rate(cluster, seconds * QUIET_SHARE, lambda: None)
        epoch, mark = _highest_epoch(cluster), journal.mark()
        attacks: dict[str, Sequence[ApiKey]] = {MIXED: list(ApiKey), **{key.name: [key] for key in alone}}
        stranger = Stranger({node_id: node.port for node_id, node in cluster.nodes.items()}, rate, seed)
        with stranger.acting():
            attacked_per_s: dict[str, float] = {}
            for name, keys in attacks.items():
                stranger.keys = keys
                attacked_per_s[name] = _rate(cluster, seconds / len(attacks), stranger.learn_leader)
        led = {event.epoch for event in journal.events(since=mark) if hasattr(event, "epoch")}
        return Bar(
            kind="dynamic" if is_dynamic else "static",
            quiet_per_s=quiet_per_s,
            attacked_per_s=attacked_per_s,
            epochs=_highest_epoch(cluster) - epoch,
            leaders=len(led - {epoch}),
            memory_mib=max(_memory_mib(node.process.pid) for node in cluster.nodes.values()),
            sent=stranger.sent,
            ended=tuple(node_id for node_id, node in cluster.nodes.items() if node.process.status is not None),
        )


def _rate(cluster: Cluster, seconds: float, poll: Any) -> float:
    mark, begun_s = cluster.journal.mark(), time.monotonic()
    while time.monotonic() < begun_s + seconds:
        poll()
        Event().wait(LOOK_S)
    said = cluster.journal.acknowledgements(since=mark)
    return sum(each.count for each in said) / (time.monotonic() - begun_s)


def _highest_epoch(cluster: Cluster) -> int:
    paths = [node.partition / FILE_NAME for node in cluster.nodes.values()]
    return max(parse_quorum_state(path, path.read_bytes()).election.epoch for path in paths)


def _memory_mib(pid: int) -> float:
    try:
        return peak_memory_mib(pid)
    except (OSError, AssertionError):
        return 0.0


def main() -> None:
    """The long form, of both kinds of quorums."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="of each attack; a fifth of it comes first, quietly")
    parser.add_argument("--rate", type=float, default=50, help="frames a second to each node")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alone", type=ApiKey.__getitem__, nargs="*", default=list(ApiKey), metavar="API")
    chosen = parser.parse_args()
    problems: list[str] = []
    for is_dynamic in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            bar = raise_bar(
                Path(folder),
                is_dynamic=is_dynamic,
                seconds=chosen.seconds,
                rate=chosen.rate,
                seed=chosen.seed,
                alone=chosen.alone,
            )
        print(bar, bar.attacked_per_s, flush=True)
        problems += [f"{bar.kind}: {problem}" for problem in bar.problems(is_rate_judged=True)]
    raise SystemExit(f"FAILED: {'; '.join(problems)}" if problems else None)


if __name__ == "__main__":
    main()
