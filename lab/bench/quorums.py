"""Quorums to measure: ours, whose latencies come from the journal, and Kafka's TestRaftServer.

High watermark, usage and life are measured by the same code for both. The leader is asked with a Fetch from an offset
that no log reaches (2^60), with its epoch as the last epoch. It answers at once that the logs diverge; the answer has
its high watermark and no records. With another epoch, or from another node, the answer names the leader and its epoch
for the next request.

When a TestRaftServer gets more load than it can write, its load thread ends for good while the process lives on, so it
always gets a rate. It reports latencies only in the lines that its leader prints every five seconds, capped at 249 ms.
It starts as with Kafka's own script, with a heap of one gigabyte.

With TLS both have the same certificates, of which each end asks for the other's, and the same cipher of TLS 1.3.

Source: KIP-595 §Fetch (diverging epoch, current leader); Kafka's ``KafkaRaftClient.validateFetchOffsetAndEpoch`` and
``TestRaftServer`` (``RaftWorkloadGenerator``, ``WriteStats``); `pykraft.server.workload`.
"""

from __future__ import annotations

import re
import socket
import ssl
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from lab.bench.measure import LoadedQuorum, Task, Usage, Watermark, usage_of
from lab.kafka.java import SERVER_JVM, JavaNode, Kafka
from lab.nodes.cluster import Cluster, PykraftNode
from pykraft.errors import ErrorCode, LocalQuorumError, ProtocolError
from pykraft.local.child import Child, Children, wait_until
from pykraft.local.journal import Acknowledged
from pykraft.local.voters import HOST, LISTENER, free_ports
from pykraft.protocol.api import FrameReader, decode_response, encode_request, frame
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.security.authority import Authority
from pykraft.security.contexts import Side, TlsContext
from pykraft.security.settings import Security
from pykraft.server.workload import UNLIMITED
from pykraft.text.words import percentiles

FAR_OFFSET: Final = 2**60
TOPIC_ID: Final = struct.pack(">qq", 0, 2)
"""The only topic of a raft test server."""
FETCH_VERSION: Final = 17
"""Not negotiated: when we did, the probe got no high watermark from Kafka's test server."""
ANSWER_SIZE_BYTES_MAX: Final = 64 * 1024
ANSWER_TIMEOUT_S: Final = 20.0
"""A leader under an unthrottled load may take long to answer."""
_RECEIVE_SIZE_BYTES: Final = 16 * 1024
LEADER_TIMEOUT_S = 60.0
LAST_WORDS_SIZE_MAX = 300
"""Characters of a log that an error quotes."""
SHARES: Mapping[str, float] = {"p50": 0.5, "p75": 0.75, "p99": 0.99, "p999": 0.999}
LINGER = "controller.quorum.append.linger.ms"
LOAD_THREAD_DIED = "[raft-workload-generator]: Error"
OUT_OF_MEMORY = "OutOfMemoryError"
RATE_MAX = 2_000_000_000
_PRINTED = re.compile(r"Latency \(ms\): ([\d.]+) p75 ([\d.]+) p99 ([\d.]+) p999")


@dataclass(frozen=True, slots=True)
class Tls:
    """What nodes need for TLS with client certificates, and the context of whoever asks them."""

    properties: Mapping[str, str]
    context: ssl.SSLContext

    @staticmethod
    def create(folder: Path) -> Tls:
        """With an authority of its own. Errors: UsageError without the package for certificates."""
        authority = Authority.create()
        stores = {"keystore": authority.issue("node", [HOST]), "truststore": authority.certificate_pem}
        values = {"ssl.client.auth": "required"}
        for name, content in stores.items():
            path = folder / f"{name}.pem"
            path.write_bytes(content)
            values |= {f"ssl.{name}.type": "PEM", f"ssl.{name}.location": str(path)}
        security = Security.of_client({**values, "security.protocol": "SSL"})
        mapped = {"listener.security.protocol.map": f"{LISTENER}:SSL"}
        return Tls({**values, **mapped}, TlsContext(security, Side.CLIENT).current)


class Probe:
    """Asks a quorum, given by the ports of its voters."""

    def __init__(self, ports: Mapping[int, int], tls: Tls | None = None) -> None:
        self._tls = tls
        self._ports = dict(ports)
        self._asked_id = min(ports)
        self._epoch = 0
        self._correlation_id = 0
        self._connection: socket.socket | None = None

    def ask(self) -> Watermark | None:
        """The high watermark; None while no leader that knows it can be reached.

        Errors: LocalQuorumError for a malformed answer.
        """
        for _ in range(len(self._ports) + 1):
            try:
                partition = self._exchange()
            except (OSError, EOFError):
                self._hang_up()
                self._asked_id = self._after(self._asked_id)
                return None
            except ProtocolError as error:
                self._hang_up()
                raise LocalQuorumError(f"node {self._asked_id} sent an invalid Fetch response: {error}") from error
            error_code, told = partition["error_code"], partition["current_leader"]
            if error_code == ErrorCode.NONE:
                return self._watermark(partition)
            if told["leader_id"] in self._ports and (told["leader_id"], told["leader_epoch"]) != self._target:
                self._aim(told["leader_id"], told["leader_epoch"])
            else:
                break
        self._aim(self._after(self._asked_id), self._epoch)
        return None

    def close(self) -> None:
        self._hang_up()

    @property
    def _target(self) -> tuple[int, int]:
        return self._asked_id, self._epoch

    def _watermark(self, partition: Body) -> Watermark | None:
        offset = partition["high_watermark"]
        if offset < 0:
            return None
        return Watermark(offset=offset, leader_id=self._asked_id, epoch=self._epoch, at_s=time.monotonic())

    def _after(self, node_id: int) -> int:
        ids = sorted(self._ports)
        return ids[(ids.index(node_id) + 1) % len(ids)]

    def _aim(self, node_id: int, epoch: int) -> None:
        if node_id != self._asked_id:
            self._hang_up()
        self._asked_id, self._epoch = node_id, max(epoch, 0)

    def _exchange(self) -> Body:
        """Send one request and read its answer. Errors: OSError, EOFError, ProtocolError."""
        if self._connection is None:
            address = (HOST, self._ports[self._asked_id])
            self._connection = socket.create_connection(address, timeout=ANSWER_TIMEOUT_S)
            if self._tls is not None:
                self._connection = self._tls.context.wrap_socket(self._connection, server_hostname=HOST)
        self._correlation_id += 1
        parts = encode_request(ApiKey.FETCH, FETCH_VERSION, self._correlation_id, "pykraft-bench", self._question())
        self._connection.sendall(b"".join(frame(parts)))
        reader = FrameReader(ANSWER_SIZE_BYTES_MAX)
        frames = reader.feed(b"")
        while not frames:
            data = self._connection.recv(_RECEIVE_SIZE_BYTES)
            if not data:
                raise EOFError("the node closed the connection")
            frames = reader.feed(data)
        correlation_id, body = decode_response(ApiKey.FETCH, FETCH_VERSION, frames[0])
        if correlation_id != self._correlation_id:
            raise ProtocolError(f"the response has correlation id {correlation_id}, expected {self._correlation_id}")
        if body["error_code"] != ErrorCode.NONE or not body["responses"] or not body["responses"][0]["partitions"]:
            raise ProtocolError(f"error {body['error_code']} without a partition")
        partition: Body = body["responses"][0]["partitions"][0]
        return partition

    def _question(self) -> Body:
        partition = {
            "partition": 0,
            "current_leader_epoch": self._epoch,
            "fetch_offset": FAR_OFFSET,
            "last_fetched_epoch": self._epoch,
            "partition_max_bytes": 0,
        }
        return {
            "max_wait_ms": 0,
            "min_bytes": 0,
            "isolation_level": 0,
            "session_id": 0,
            "topics": [{"topic_id": TOPIC_ID, "partitions": [partition]}],
            "forgotten_topics_data": [],
            "rack_id": "",
        }

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class Running:
    """The nodes of a quorum by id, and the ports that they serve; see `lab.bench.measure.LoadedQuorum`."""

    def __init__(
        self, nodes: Mapping[int, PykraftNode | JavaNode], ports: Mapping[int, int], tls: Tls | None = None
    ) -> None:
        self._nodes = nodes
        self._probe = Probe(ports, tls)

    def start(self) -> None:
        for node in self._nodes.values():
            node.start()

    def watermark(self) -> Watermark:
        """Wait for the leader's answer. Errors: LocalQuorumError."""
        return wait_until(self._ask, "a leader's high watermark", timeout_s=LEADER_TIMEOUT_S)

    def usage(self) -> Mapping[int, Usage]:
        return {node_id: usage_of(node.process.pid, node.process.name) for node_id, node in self._nodes.items()}

    def failure(self) -> str | None:
        """Which nodes have ended, with the end of the first one's log; None if all live."""
        ended = [node.process for node in self._nodes.values() if node.process.status is not None]
        if not ended:
            return None
        return ", ".join(f"{child.name} ended with {child.status}" for child in ended) + _last_words(ended[0])

    def batch_size_bytes(self) -> float | None:
        """See `LoadedQuorum`: unknown, unless a journal tells."""
        return None

    def close(self) -> None:
        self._probe.close()

    def _ask(self) -> Watermark | None:
        ended = self.failure()
        if ended is not None:
            raise LocalQuorumError(ended)
        return self._probe.ask()


def _last_words(child: Child) -> str:
    lines = child.log().split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    return f": {last.strip()[:LAST_WORDS_SIZE_MAX]}" if last else ""


class PykraftQuorum(Running):
    """See `lab.bench.measure.LoadedQuorum`."""

    def __init__(self, children: Children, folder: Path, task: Task, *, has_tls: bool = False) -> None:
        tls = Tls.create(folder) if has_tls else None
        self.cluster = Cluster(
            children,
            folder,
            size=task.nodes,
            throughput=UNLIMITED if task.records_per_s is None else task.records_per_s,
            record_size_bytes=task.record_size_bytes,
            properties={LINGER: str(task.linger_ms), **({} if tls is None else tls.properties)},
        )
        """Its nodes and its journal."""
        nodes = self.cluster.nodes
        super().__init__(nodes, {node_id: node.port for node_id, node in nodes.items()}, tls)
        self._record_size_bytes = task.record_size_bytes
        self._mark = 0

    def begin_window(self) -> None:
        self._mark = self.cluster.journal.mark()

    def latency_ms(self) -> Mapping[str, float]:
        return latencies_ms(self.cluster.journal.acknowledgements(since=self._mark))

    def batch_size_bytes(self) -> float | None:
        """See `LoadedQuorum`: of the values alone."""
        said = self.cluster.journal.acknowledgements(since=self._mark)
        return sum(one.count for one in said) / len(said) * self._record_size_bytes if said else None


class Ours:
    """See `lab.bench.measure.Contender`."""

    breaks_when_overloaded = False

    def __init__(self, *, has_tls: bool = False) -> None:
        self.name = "pykraft-tls" if has_tls else "pykraft"
        self._has_tls = has_tls

    def quorum(self, children: Children, folder: Path, task: Task) -> LoadedQuorum:
        return PykraftQuorum(children, folder, task, has_tls=self._has_tls)


def latencies_ms(said: Sequence[Acknowledged]) -> dict[str, float]:
    """Latencies in ms that these shares of the records did not exceed; empty without records."""
    return percentiles(((one.latency_ms, one.count) for one in said), SHARES) if said else {}


class KafkaQuorum(Running):
    """See `lab.bench.measure.LoadedQuorum`."""

    def __init__(self, kafka: Kafka, children: Children, folder: Path, task: Task, *, has_tls: bool = False) -> None:
        tls = Tls.create(folder) if has_tls else None
        ports = dict(enumerate(free_ports(task.nodes), start=1))
        nodes = {
            node_id: JavaNode(
                kafka,
                children,
                folder / f"n{node_id}",
                node_id=node_id,
                ports=ports,
                throughput=RATE_MAX if task.records_per_s is None else task.records_per_s,
                record_size_bytes=task.record_size_bytes,
                properties={LINGER: str(task.linger_ms), **({} if tls is None else tls.properties)},
                log_level="WARN",
                jvm=SERVER_JVM,
            )
            for node_id in ports
        }
        super().__init__(nodes, ports, tls)
        self._log_paths = [node.log_path for node in nodes.values()]

    def failure(self) -> str | None:
        said = self._said()
        if LOAD_THREAD_DIED in said:
            return "its load thread died of overload"
        if OUT_OF_MEMORY in said:
            return "a node ran out of memory"
        return super().failure()

    def begin_window(self) -> None:
        """See `LoadedQuorum`; its lines have their own windows."""

    def latency_ms(self) -> Mapping[str, float]:
        """See `LoadedQuorum`: the last line that was printed."""
        lines = _PRINTED.findall(self._said())
        return dict(zip(("p75", "p99", "p999"), map(float, lines[-1]), strict=True)) if lines else {}

    def _said(self) -> str:
        return "".join(path.read_text(errors="replace") for path in self._log_paths)


class Java:
    """See `lab.bench.measure.Contender`."""

    breaks_when_overloaded = True

    def __init__(self, kafka: Kafka, *, has_tls: bool = False) -> None:
        self.name = "kafka-tls" if has_tls else "kafka"
        self._kafka = kafka
        self._has_tls = has_tls

    def quorum(self, children: Children, folder: Path, task: Task) -> LoadedQuorum:
        return KafkaQuorum(self._kafka, children, folder, task, has_tls=self._has_tls)
