"""Runs `pykraft server` nodes as processes, one voter or a quorum, with our own interpreter and sources, and a journal.

Invariant: a node writes its acknowledgements to a pipe whose other end this process holds, so that nothing that happens
to the node or its files touches the journal. What a node wrote before it was killed is in the journal, because the
bytes in a pipe outlive their writer; a line that was cut off is no acknowledgement. Callers wait for entries of the
journal, not for fixed times.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from threading import Condition, Thread
from typing import Protocol, TypeVar

from lab.nodes.logs import read_stream, require_identical, wait_for_end_offset
from lab.nodes.verdict import JournalVerdict, check_journal
from pykraft.config import INT64_MAX, TEST_CLUSTER_ID
from pykraft.errors import LocalQuorumError, ProtocolError, UsageError
from pykraft.local.child import WAIT_TIMEOUT_S, Child, Children, wait_until
from pykraft.local.journal import Acknowledged, JournalEvent, Led, Started, parse_event, record_spans
from pykraft.local.voters import (
    HOST,
    LISTENER,
    PARTITION,
    SOURCES,
    free_ports,
    joiner_properties,
    server_command,
    voter_properties,
    write_properties,
)
from pykraft.log.small_files.proof_file import FILE_NAME, parse_proof
from pykraft.server.workload import TELLING_SIZE_BYTES_MIN
from pykraft.text.words import counted
from pykraft.types import Endpoint, Uuid, uuid_text

T = TypeVar("T")

ALIVE_CHECK_INTERVAL_S = 0.2
QUIET_S = 0.5
"""Much longer than a commit takes: after this long without entries, the journal has everything that was in flight."""


class JournalKeeper:
    """The journal in ``path`` and in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._events: list[JournalEvent] = []
        self._faults: list[str] = []
        self._changed = Condition()

    def attach(self, descriptor: int) -> None:
        """Read this pipe until all its writers are gone, then close the descriptor."""
        Thread(target=self._read, args=(descriptor,), name=f"journal-{descriptor}", daemon=True).start()

    def mark(self) -> int:
        """The current end of the journal; pass it as ``since`` to find later entries."""
        with self._changed:
            return len(self._events)

    def events(self, *, since: int = 0) -> list[JournalEvent]:
        """All entries so far. Errors: LocalQuorumError for an invalid line."""
        with self._changed:
            if self._faults:
                raise LocalQuorumError(self._faults[0])
            return self._events[since:]

    @property
    def end_offset(self) -> int:
        """The end offset of the acknowledged records, 0 before the first; everything below it is committed."""
        return max((said.end_offset for said in self.acknowledgements()), default=0)

    def acknowledgements(self, *, since: int = 0) -> list[Acknowledged]:
        return [event for event in self.events(since=since) if isinstance(event, Acknowledged)]

    def wait_for(
        self,
        find: Callable[[Sequence[JournalEvent]], T | None],
        what: str,
        *,
        since: int = 0,
        timeout_s: float = WAIT_TIMEOUT_S,
        alive: Sequence[Child] = (),
    ) -> T:
        """The first result of ``find`` that is neither None nor False; it gets the entries from ``since`` on.

        Errors: LocalQuorumError with ``what`` at the timeout, or when a process that must stay ``alive`` has ended.
        """

        def seen() -> T | None:
            if self._faults:
                raise LocalQuorumError(self._faults[0])
            return find(self._events[since:])

        with self._changed:
            return wait_until(
                seen,
                what,
                timeout_s=timeout_s,
                alive=alive,
                pause=self._changed.wait,
                interval_s=ALIVE_CHECK_INTERVAL_S,
            )

    def wait_for_started(self, node_id: int, *, since: int, process: Child) -> None:
        """Wait until this node reports that it serves; ``since`` is a mark from before its start."""

        def has_started(events: Sequence[JournalEvent]) -> bool:
            return any(isinstance(event, Started) and event.node == node_id for event in events)

        self.wait_for(has_started, f"{process.name} to serve", since=since, alive=[process])

    def leader_id(self) -> int:
        """The node that reported a leadership last. Errors: LocalQuorumError before the first one."""
        leaders = [event.node for event in self.events() if isinstance(event, Led)]
        if not leaders:
            raise LocalQuorumError("no node has led yet")
        return leaders[-1]

    def wait_for_leader(self, *, since: int, alive: Sequence[Child] = ()) -> Led:
        """The first node that reports a leadership after this mark."""

        def first_led(events: Sequence[JournalEvent]) -> Led | None:
            return next((event for event in events if isinstance(event, Led)), None)

        return self.wait_for(first_led, "a leader", since=since, alive=alive)

    def wait_for_acknowledged(
        self, count: int, *, since: int, except_by: int | None = None, timeout_s: float = WAIT_TIMEOUT_S
    ) -> None:
        """Wait until this many records were acknowledged after this mark, by nodes other than ``except_by``."""

        def are_acknowledged(events: Sequence[JournalEvent]) -> bool:
            said = [event for event in events if isinstance(event, Acknowledged) and event.node != except_by]
            return sum(event.count for event in said) >= count

        self.wait_for(are_acknowledged, counted(count, "more acknowledged record"), since=since, timeout_s=timeout_s)

    def wait_until_quiet(self, *, timeout_s: float = WAIT_TIMEOUT_S) -> None:
        """Wait until nodes that write no more have reported everything. Errors: LocalQuorumError."""
        deadline = time.monotonic() + timeout_s
        mark = -1
        while mark != (mark := self.mark()):
            if time.monotonic() >= deadline:
                raise LocalQuorumError(f"waited {timeout_s:g} s for the nodes to stop writing")
            time.sleep(QUIET_S)

    def _read(self, descriptor: int) -> None:
        """Read to the end even if the journal cannot be written: a node must not block on its pipe."""
        with os.fdopen(descriptor, "rb") as pipe, self.path.open("ab", buffering=0) as journal:
            for line in pipe:
                if not line.endswith(b"\n"):
                    return
                try:
                    journal.write(line)
                except OSError as error:
                    with self._changed:
                        self._faults.append(f"{self.path}: {error.strerror}")
                self._take(line)

    def _take(self, line: bytes) -> None:
        with self._changed:
            try:
                self._events.append(parse_event(line))
            except ProtocolError as error:
                self._faults.append(str(error))
            self._changed.notify_all()


KEEP_EVERYTHING = {
    "metadata.log.max.record.bytes.between.snapshots": str(INT64_MAX),
    "metadata.log.max.snapshot.interval.ms": "0",
}
"""A node under load then takes no snapshot and deletes nothing, so the whole log can be compared with the journal."""

FORMAT_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """Where a node listens, the port that others dial, and its log directory if that is elsewhere.

    ``options`` are added to its command line.
    """

    port: int
    published_port: int
    data: Path | None = None
    options: tuple[str, ...] = ()

    @property
    def properties(self) -> dict[str, str]:
        return {
            "listeners": f"{LISTENER}://{HOST}:{self.port}",
            "advertised.listeners": f"{LISTENER}://{HOST}:{self.published_port}",
        }


class PykraftNode:
    """A node that can be started, stopped, killed, paused and restarted in the same folder."""

    def __init__(  # noqa: PLR0913 - all by name, and each is the command line of a node
        self,
        children: Children,
        journal: JournalKeeper,
        home: Path,
        *,
        node_id: int,
        ports: Mapping[int, int],
        throughput: int = 2_000,
        record_size_bytes: int = 100,
        properties: Mapping[str, str] | None = None,
        cluster_id: str | None = None,
        bootstrap: Sequence[Endpoint] = (),
        site: Site | None = None,
    ) -> None:
        """``ports`` are those of all voters by node id, also this node; ``throughput`` is in records per second.

        With a ``site`` they are the published ports, and the node listens on another one.

        With ``bootstrap`` the node belongs to a dynamic quorum, which it finds there, and must be formatted first. The
        default cluster id is that of Kafka's TestRaftServer.
        """
        home.mkdir(parents=True)
        self.node_id = node_id
        self.port = ports[node_id]
        self.partition = home / "data" / PARTITION
        self.log_path = home / "node.log"
        self._children = children
        self._journal = journal
        self._child: Child | None = None
        self.start_mark = 0
        """Where the journal ended before the last start."""
        extra = {**KEEP_EVERYTHING, **(properties or {}), **({} if site is None else site.properties)}
        if site is not None and site.data is not None:
            (home / "data").symlink_to(site.data)
        values = (
            joiner_properties(home / "data", node_id=node_id, port=self.port, bootstrap=bootstrap, extra=extra)
            if bootstrap
            else voter_properties(home / "data", node_id=node_id, ports=ports, extra=extra)
        )
        self.config = write_properties(home / "server.properties", values)
        self._cluster_id = cluster_id
        load = ("--throughput", str(throughput), "--record-size", str(record_size_bytes))
        identity = ("--cluster-id", cluster_id) if cluster_id is not None else ()
        self._command = server_command(self.config, *load, *identity, *(() if site is None else site.options))

    @property
    def process(self) -> Child:
        assert self._child is not None, f"node {self.node_id} was not started"
        return self._child

    def is_proven(self) -> bool:
        """Whether the directory of a node that serves counts: of a new one, whether all other voters were heard."""
        path = self.partition.parent / FILE_NAME
        return not path.exists() or parse_proof(path, path.read_bytes()).is_complete

    def format(self, *options: str) -> None:
        """Format the directory with `pykraft storage format`. Errors: LocalQuorumError."""
        cluster_id = self._cluster_id or TEST_CLUSTER_ID
        words = ["storage", "format", "--config", str(self.config), "--cluster-id", cluster_id, *options]
        done = subprocess.run(
            [sys.executable, "-m", "pykraft", *words],
            env=os.environ | {"PYTHONPATH": str(SOURCES)},
            capture_output=True,
            text=True,
            timeout=FORMAT_TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            raise LocalQuorumError(f"formatting node {self.node_id} ended with {done.returncode}: {done.stderr}")

    def start(self, *, descriptors_max: int | None = None, options: Sequence[str] = ()) -> None:
        """Start or restart the node; it serves once the journal has its `Started`.

        ``descriptors_max`` sets its ``ulimit -n``, which it cannot raise. ``options`` are for this start only.
        """
        assert self._child is None or self._child.status is not None, f"node {self.node_id} is already running"
        self.start_mark = self._journal.mark()
        limit = f'ulimit -n {descriptors_max} && exec "$@"'
        limited = [] if descriptors_max is None else ["sh", "-c", limit, "sh"]
        reading, writing = os.pipe()
        self._journal.attach(reading)
        try:
            self._child = self._children.start(
                f"node {self.node_id}",
                [*limited, *self._command, *options, "--ack-fd", str(writing)],
                self.log_path,
                pass_fds=[writing],
                environment={"PYTHONPATH": str(SOURCES)},
            )
        finally:
            os.close(writing)


class Guest(Protocol):
    """A replica that is not a pykraft node and writes no journal."""

    node_id: int
    partition: Path

    @property
    def process(self) -> Child:
        """The process of the last start."""

    def start(self) -> None:
        """Start or restart it."""


class Cluster:
    """A quorum of nodes 1 to ``size`` with a journal and a cluster id, which is random by default.

    Its voters are static unless ``is_dynamic``. Some of them may be `guests`.
    """

    def __init__(  # noqa: PLR0913 - all by name, and each has a default but for the folder
        self,
        children: Children,
        folder: Path,
        *,
        size: int = 3,
        throughput: int = 2_000,
        record_size_bytes: int = 100,
        properties: Mapping[str, str] | None = None,
        is_dynamic: bool = False,
        sites: Mapping[int, Site] | None = None,
        cluster_id: str | None = None,
        guests: Mapping[int, Guest] | None = None,
    ) -> None:
        """``sites`` are those of all nodes by id, with guests; without them others dial a node where it listens."""
        self.cluster_id = cluster_id or uuid_text(Uuid(os.urandom(16)))
        self.guests = guests or {}
        self._children = children
        self._folder = folder
        self._throughput = throughput
        self._record_size_bytes = record_size_bytes
        self.properties = properties or {}
        self.journal = JournalKeeper(folder / "journal.jsonl")
        self.nodes: dict[int, PykraftNode] = {}
        """By id. Every node in here counts as a replica: it is waited for and its log is checked."""
        self._sites = sites or {}
        self._seconds = count(1)
        ports = {node_id: site.published_port for node_id, site in self._sites.items()}
        ports = ports or dict(enumerate(free_ports(size), start=1))
        self._ports = ports
        self._bootstrap = [Endpoint(HOST, port) for port in ports.values()] if is_dynamic else []
        for node_id in ports:
            if node_id not in self.guests:
                self.nodes[node_id] = self._node(node_id, ports, self.properties, self._bootstrap)
        if is_dynamic:
            self._format()

    def join(self, node_id: int, properties: Mapping[str, str] | None = None) -> PykraftNode:
        """Create a further node, formatted to join the dynamic quorum; ``properties`` are its own.

        Errors: LocalQuorumError.
        """
        assert node_id not in self.nodes
        own = {**self.properties, **(properties or {})}
        node = self._node(node_id, {node_id: free_ports(1)[0]}, own, self.endpoints)
        node.format("--no-initial-controllers")
        self.nodes[node_id] = node
        return node

    def second_process(self, node_id: int, *, data: Path | None = None) -> PykraftNode:
        """Create a second process with a node's id and published port, on a directory of its own or on ``data``.

        It is not a replica: nobody waits for it or checks its log. What it acknowledges is in the journal.
        """
        home = self._folder / f"n{node_id}-second-{next(self._seconds)}"
        site = Site(port=free_ports(1)[0], published_port=self._ports[node_id], data=data)
        return self._node(node_id, self._ports, self.properties, self._bootstrap, home=home, site=site)

    @property
    def replicas(self) -> dict[int, PykraftNode | Guest]:
        return {**self.nodes, **self.guests}

    @property
    def endpoints(self) -> list[Endpoint]:
        return [Endpoint(HOST, node.port) for node in self.nodes.values()]

    def start(self) -> Led:
        """Start all nodes; returns the first leader in the journal, when each node's directory is proven.

        Two nodes can elect one while the third waits to hear from both; if one of them died then, nobody could lead.
        """
        mark = self.journal.mark()
        for node in self.replicas.values():
            node.start()
        led = self.journal.wait_for_leader(since=mark, alive=[node.process for node in self.replicas.values()])
        for node in self.nodes.values():
            self.journal.wait_for_started(node.node_id, since=mark, process=node.process)
            wait_until(node.is_proven, f"the directory of {node.process.name} to be proven", alive=[node.process])
        return led

    def end_load(self) -> None:
        """Ask all nodes to stop writing, and wait until they have acknowledged what was in flight.

        Errors: LocalQuorumError when a node does not serve yet, or keeps writing.
        """
        for node in self.nodes.values():
            self.journal.wait_for_started(node.node_id, since=node.start_mark, process=node.process)
            node.process.signal(signal.SIGUSR1)
        self.journal.wait_until_quiet()

    def wait_until_caught_up(self) -> int:
        """Wait until every replica's log holds everything acknowledged so far; returns that end offset."""
        end_offset = self.journal.end_offset
        for node in self.replicas.values():
            wait_for_end_offset(node.partition, end_offset, node.process)
        return end_offset

    def stop(self) -> dict[int, int]:
        """Stop all replicas gracefully at the same time; returns the exit statuses of the nodes, without guests."""
        for node in self.replicas.values():
            node.process.terminate()
        statuses = {node_id: node.process.wait() for node_id, node in self.replicas.items()}
        return {node_id: statuses[node_id] for node_id in self.nodes}

    def finish(self) -> JournalVerdict:
        """End the load, let all replicas catch up, stop them, and `check` the logs; returns a verdict without problems.

        Errors: LocalQuorumError, also when a node's exit status is not 0, or when a log lacks acknowledged records.
        """
        self.end_load()
        end_offset = self.wait_until_caught_up()
        failed = {node_id: status for node_id, status in self.stop().items() if status}
        if failed:
            raise LocalQuorumError(f"nodes ended with a status other than 0: {failed}")
        verdict = self.check(caught_up_offset=end_offset)
        if not verdict.is_clean:
            raise LocalQuorumError(f"the log differs from what was acknowledged: {verdict}")
        return verdict

    def check(self, *, caught_up_offset: int) -> JournalVerdict:
        """Compare the logs of the stopped replicas, and compare the journal with the longest log.

        Errors: LocalQuorumError when the logs are not identical, or do not all reach ``caught_up_offset``; UsageError
        for records that are too small to carry their identity.
        """
        if self._record_size_bytes < TELLING_SIZE_BYTES_MIN:
            needs = f"records of at least {TELLING_SIZE_BYTES_MIN} bytes can be told apart"
            raise UsageError(f"a log of records of {self._record_size_bytes} bytes cannot be checked: {needs}")
        streams = {f"node {node_id}": read_stream(node.partition) for node_id, node in self.replicas.items()}
        require_identical(streams, end_offset=caught_up_offset)
        furthest = max(streams.values(), key=lambda stream: (stream.last_epoch, stream.end_offset))
        return check_journal(self.journal.acknowledgements(), record_spans(furthest.data))

    def _node(
        self,
        node_id: int,
        ports: Mapping[int, int],
        properties: Mapping[str, str],
        bootstrap: Sequence[Endpoint],
        *,
        home: Path | None = None,
        site: Site | None = None,
    ) -> PykraftNode:
        return PykraftNode(
            self._children,
            self.journal,
            home or self._folder / f"n{node_id}",
            node_id=node_id,
            ports=ports,
            throughput=self._throughput,
            record_size_bytes=self._record_size_bytes,
            properties=properties,
            cluster_id=self.cluster_id,
            bootstrap=bootstrap,
            site=site or self._sites.get(node_id),
        )

    def _format(self) -> None:
        voters = ",".join(
            f"{node.node_id}@{HOST}:{node.port}:{uuid_text(Uuid(os.urandom(16)))}" for node in self.nodes.values()
        )
        for node in self.nodes.values():
            node.format("--initial-controllers", voters)
