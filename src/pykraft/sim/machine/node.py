"""One node of a world: a virtual machine that starts, runs, is killed or loses power, and starts again.

Like the server, it is an adapter of the host: `Process` implements `pykraft.host.ports.Ports` with virtual time,
network and disk, and passes what arrives to the host.

A paused process does nothing; what arrives during the pause waits in the kernel and is processed in order afterwards. A
disk error ends the process, as it would end the server; the node starts again later. Every call into the host tells the
observer that something happened to this node.

Code that shares a process with the host, such as a program's own requests to other nodes, has connections, too: their
frames share the links with the host's and end with the process, and none reaches the host.

The ordered lane takes all waiting jobs at once, as the server's thread does. Each turn takes some virtual time; jobs
submitted meanwhile wait for the next one. The bulk lane does one long read or write at a time. Invariant: each lane
works, and reports, in the order of submission. Time passes between a read and its report, so the result may be out of
date when the host gets it. A process may end in the middle of either lane's work.

Source: `pykraft.host.ports.Ports.submit` and ``submit_read``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Protocol, TypeVar

from pykraft.config import NodeConfig
from pykraft.core.effects import EnterQuarantine, Report
from pykraft.core.raft import Raft
from pykraft.core.status import Status
from pykraft.errors import StorageError
from pykraft.host.host import Host
from pykraft.host.ports import CheckInSteps, ConnectionId, run_steps
from pykraft.log.lane import Job
from pykraft.security.acl_file import parse_acls
from pykraft.security.acls import Authorizer, AuthorizerSettings
from pykraft.security.principal import ANONYMOUS, KnownEnd
from pykraft.sim.machine.clock import Alarm, NodeClock
from pykraft.sim.machine.dialect import Dialect, Negotiation
from pykraft.sim.machine.disk import Interrupted, VirtualDisk
from pykraft.sim.machine.ledger import Ledger
from pykraft.sim.machine.network import Network, Station
from pykraft.sim.machine.spoken import Wiretap
from pykraft.sim.machine.surroundings import NodeObserver, Surroundings
from pykraft.sim.scenario.settings import ACLS, certificate_of, node_at, port_of
from pykraft.types import Buffer, Endpoint, Io, ReplicaKey


class ProcessGuest(Protocol):
    """The owner of one connection."""

    def connected(self) -> None:
        """The dial succeeded."""

    def closed(self) -> None:
        """The dial failed, or the connection is gone."""

    def received(self, frame: bytes) -> None:
        """A whole frame arrived."""


class Guests:
    """The guests of one process, by their connections."""

    def __init__(self, station: Station, network: Network) -> None:
        self._station = station
        self._network = network
        self._guests: dict[ConnectionId, ProcessGuest] = {}

    def dial(self, guest: ProcessGuest, endpoint: Endpoint) -> ConnectionId:
        """Connect for this guest."""
        connection = self._network.dial(self._station, endpoint)
        self._guests[connection] = guest
        return connection

    def send(self, connection: ConnectionId, parts: Sequence[Buffer]) -> None:
        """Send a frame."""
        self._network.send(connection, parts)

    def close(self, connection: ConnectionId) -> None:
        """Close a connection; its guest hears nothing more of it."""
        if self._guests.pop(connection, None) is not None:
            self._network.close(connection)

    def connected(self, connection: ConnectionId) -> bool:
        """Tell the guest, if it is one's."""
        guest = self._guests.get(connection)
        if guest is not None:
            guest.connected()
        return guest is not None

    def closed(self, connection: ConnectionId) -> bool:
        """As `connected`."""
        guest = self._guests.pop(connection, None)
        if guest is not None:
            guest.closed()
        return guest is not None

    def received(self, connection: ConnectionId, frame: bytes) -> bool:
        """As `connected`."""
        guest = self._guests.get(connection)
        if guest is not None:
            guest.received(frame)
        return guest is not None


T = TypeVar("T")


class SimulatedOrderedLane:
    """The storage jobs of one process."""

    def __init__(self, owner: Process, rng: Random) -> None:
        self._owner = owner
        self._rng = rng
        self._queue: list[Job] = []
        self._is_busy = False

    @property
    def is_idle(self) -> bool:
        """True when no storage job waits or is being done."""
        return not self._is_busy

    def submit(self, job: Job) -> None:
        """Carry out this job in the next turn."""
        self._queue.append(job)
        if not self._is_busy:
            self._begin()

    def _begin(self) -> None:
        """One turn: 1. it takes all jobs that wait, and 2. carries them out."""
        self._is_busy = True
        jobs, self._queue = self._queue, []
        duration_us = self._owner.lane_delay_us()
        until_done_us = self._rng.randrange(duration_us)
        self._owner.later(until_done_us, lambda: self._perform(jobs, duration_us - until_done_us))

    def _perform(self, jobs: Sequence[Job], until_told_us: int) -> None:
        """Carry them out; unless the process ends in the middle, 3. the host is told, a little later."""
        self._owner.touch()
        if self._owner.waits_for_disk(lambda: self._perform(jobs, until_told_us)):
            return
        try:
            io = self._owner.perform(jobs)
        except (Interrupted, StorageError) as problem:
            self._owner.cannot_write(problem)
            return
        self._owner.later(until_told_us, lambda: self._end_turn(io))

    def _end_turn(self, io: Io) -> None:
        self._owner.touch()
        self._is_busy = False
        if self._queue:
            self._begin()
        else:
            self._owner.persisted()
        self._owner.io_done(io)


class BulkLane:
    """The long reads and writes of one process."""

    def __init__(self, owner: Process, surroundings: Surroundings) -> None:
        self._owner = owner
        self._surroundings = surroundings
        self._waiting: deque[tuple[Callable[[], Callable[[], None]], int]] = deque()
        """What waits; each with the time between doing it and reporting it."""
        self._done: deque[Callable[[], None]] = deque()
        self._due_us = 0
        """When the last submitted work is to be reported."""

    @property
    def is_idle(self) -> bool:
        """True when nothing waits, runs, or is still to be reported."""
        return not self._waiting and not self._done

    def submit(self, act: Callable[[], T], then: Callable[[T], None]) -> None:
        """Do this after everything submitted before, and report it a little later. A disk error ends the node."""

        def do() -> Callable[[], None]:
            result = act()
            return lambda: then(result)

        now_us = self._surroundings.clock.now_us
        delay_us = self._owner.lane_delay_us()
        # A turn that is slow already is not multiplied: more than a second would be a stop, not slowness.
        longest_us = max(delay_us, self._surroundings.storage.slow_turn_us_max)
        duration_us = min(delay_us * self._surroundings.bulk_factor, longest_us)
        self._due_us = max(self._due_us, now_us + duration_us)
        until_told_us = duration_us // 2
        self._waiting.append((do, until_told_us))
        self._owner.later(self._due_us - now_us - until_told_us, self._do)

    def _do(self) -> None:
        self._owner.touch()
        if self._owner.waits_for_disk(self._do):
            return
        do, until_told_us = self._waiting.popleft()
        try:
            self._done.append(do())
        except (Interrupted, StorageError) as problem:
            self._owner.cannot_write(problem)
        else:
            self._owner.later(until_told_us, self._report)

    def _report(self) -> None:
        self._owner.touch()
        self._done.popleft()()


class Process:
    """One run of a node's program, from its start to its end. See `pykraft.sim.machine.network.Station` and `Ports`."""

    def __init__(self, node: SimulatedNode) -> None:
        self.port = port_of(node.config)
        self.node_id = node_at(self.port)
        self.principal = node.principal
        self._node = node
        self._surroundings = node.surroundings
        self._observer = node.observer
        self._alarm = Alarm(node.clock, self.later, self._ring)
        self._backlog: deque[Callable[[], None]] | None = None
        self._visits: dict[ConnectionId, Callable[[Sequence[Buffer]], None]] = {}
        """Open questions of clients that call the host directly, and where each answer goes."""
        self.guests = Guests(self, node.surroundings.network)
        self._negotiation = Negotiation(node.dialect) if node.dialect is not None else None
        self.is_running = True
        self.is_leaving = False
        """True after the process was asked to shut down."""
        self.resumed_us = -1
        """When the process had caught up after its last pause; -1 without one."""
        self.wiretap = Wiretap(lambda: node.disk.is_rotten, lambda: self.host.raft)
        self.ordered = SimulatedOrderedLane(self, node.rng)
        self.bulk = BulkLane(self, node.surroundings)
        config = node.observer.configured(node)
        self.bootstrap = config.bootstrap_servers
        rng, authorizer = Random(node.rng.random()), node.authorizer
        self.host = Host.open(node.disk, self, config, rng=rng, core=node.core, authorizer=authorizer)

    def start(self) -> None:
        """Let the host take its first step."""
        self._surroundings.network.attach(self)
        self.touch()
        self.host.start(self._node.clock.instant)

    @property
    def is_idle(self) -> bool:
        """True when both lanes have nothing to do."""
        return self.ordered.is_idle and self.bulk.is_idle

    @property
    def is_paused(self) -> bool:
        """True from the beginning of a pause until everything that came meanwhile is processed."""
        return self._backlog is not None

    def pause(self, duration_us: int) -> None:
        """Do nothing for this long: garbage collection, a migration of the virtual machine, ``kill -STOP``."""
        assert self._backlog is None, "it stands still already"
        self._backlog = deque()
        self._surroundings.clock.after(duration_us, self._catch_up)

    def _catch_up(self) -> None:
        if not self.is_running or self._backlog is None:
            return
        if not self._backlog:
            self._backlog = None
            self.resumed_us = self._surroundings.clock.now_us
            return
        self._backlog.popleft()()
        self._surroundings.clock.after(0, self._catch_up)

    def end(self, *, is_silent: bool = False) -> None:
        """End the process: nothing that was planned for it happens."""
        self.is_running = False
        self._surroundings.network.detach(self, is_silent=is_silent)

    def accepted(self, connection: ConnectionId) -> None:
        end = KnownEnd(self._surroundings.network.principal_at(connection))
        self._take(partial(self._accepted, connection, end))

    def connected(self, connection: ConnectionId) -> None:
        end = KnownEnd(self._surroundings.network.principal_at(connection))
        self._take(partial(self._connected, connection, end))

    def closed(self, connection: ConnectionId, *, is_refused: bool = False) -> None:
        self._take(partial(self._closed, connection, is_refused=is_refused))

    def received(self, connection: ConnectionId, frame: bytes) -> None:
        self._take(partial(self._received, connection, frame))

    def _accepted(self, connection: ConnectionId, end: KnownEnd) -> None:
        self.host.on_accepted(connection, self._node.config.default_listener, self._node.clock.instant, end)

    def _connected(self, connection: ConnectionId, end: KnownEnd) -> None:
        self.touch()
        if self.guests.connected(connection):
            return
        self.host.on_connected(connection, self._node.clock.instant, end)

    def _closed(self, connection: ConnectionId, *, is_refused: bool) -> None:
        self.touch()
        if self.guests.closed(connection):
            return
        self.wiretap.broke(connection, is_refused=is_refused)
        self.host.on_closed(connection, self._node.clock.instant, is_refused=is_refused)

    def _received(self, connection: ConnectionId, frame: bytes) -> None:
        self.touch()
        self._surroundings.trace.absorb(frame)
        if self.guests.received(connection, frame):
            return
        if self._negotiation is not None:
            frame = self._negotiation.received(connection, frame)
        self.wiretap.heard(connection, frame, self._node.ledger.end, is_damaged=self._node.is_damaged)
        self.host.on_frame(connection, frame, self._node.clock.instant)

    def visit(self, connection: ConnectionId, request: bytes, told: Callable[[Sequence[Buffer]], None]) -> None:
        """Pass a client's request to the host directly. ``told`` gets the answer, or nothing if it is refused."""
        self.touch()
        self._visits[connection] = told
        now = self._node.clock.instant
        self.host.on_accepted(connection, self._node.config.default_listener, now)
        self.host.on_frame(connection, request, now)

    def dial(self, endpoint: Endpoint) -> ConnectionId:
        connection, target_id = self._surroundings.network.dial(self, endpoint), node_at(endpoint.port)
        self.wiretap.dialed(connection, target_id)
        self._observer.dialed(self._node, target_id)
        return connection

    def send(self, connection: ConnectionId, parts: Sequence[Buffer]) -> None:
        """See `Ports`; oracles see what the quorum says before it leaves."""
        if connection in self._visits:
            self._visits.pop(connection)(parts)
            return
        is_epoch_durable = self.host.status.epoch <= self._observer.durable_epoch(self._node)
        spoken = self.wiretap.says(connection, parts, is_epoch_durable=is_epoch_durable)
        if spoken is not None:
            self._observer.before_send(self._node, spoken)
            if spoken.fetched is not None:
                led_epoch = spoken.epoch if spoken.target_id == self.host.status.leader_id else None
                self.wiretap.fetches(connection, self._surroundings.clock.now_us, led_epoch=led_epoch)
        if self._negotiation is not None:
            parts = self._negotiation.sent(connection, parts)
        self._surroundings.network.send(connection, parts)

    def received_size_bytes(self, connection: ConnectionId) -> tuple[int, int]:
        return self._surroundings.network.received_size_bytes(connection)

    def unsent_size_bytes(self, connection: ConnectionId) -> int:
        return self._surroundings.network.unsent_size_bytes(connection)

    def close(self, connection: ConnectionId) -> None:
        self._surroundings.network.close(connection)
        if connection in self._visits:
            self._visits.pop(connection)(())

    def submit(self, job: Job) -> None:
        self._observer.submitted(self._node, job)
        ledger = self._node.ledger
        ledger.submitted(job)
        if isinstance(job, EnterQuarantine):
            ledger.cut(self.host.status.log_end_offset)
        self.ordered.submit(job)

    def submit_read(self, read: Callable[[], T], then: Callable[[T], None]) -> None:
        self.bulk.submit(read, then)

    def submit_check(self, check: CheckInSteps) -> None:
        self.bulk.submit(lambda: run_steps(check.steps), check.ended)

    def wake_at(self, mono_ms: int | None) -> None:
        self._alarm.at(mono_ms)

    def report(self, report: Report) -> None:
        self._surroundings.trace.note(self.node_id, report.text)
        self._observer.reported(self._node, report)

    def stop(self, error: Exception | None) -> None:
        self._surroundings.trace.note(self.node_id, f"stops: {error or 'gracefully'}")
        self._node.stopped(error)

    def later(self, delay_us: int, act: Callable[[], None]) -> None:
        """Call this after the delay, if the process still runs."""
        self._surroundings.clock.after(delay_us, lambda: self._take(act) if self.is_running else None)

    def _take(self, act: Callable[[], None]) -> None:
        assert self.is_running, "a process that is gone hears nothing"
        if self._backlog is None:
            act()
        else:
            self._backlog.append(act)

    def waits_for_disk(self, act: Callable[[], None]) -> bool:
        """When the disk stalls, plan ``act`` for later and return True."""
        left_us = self._node.disk.io_errors.stalled_until_us - self._surroundings.clock.now_us
        if left_us > 0:
            self.later(left_us, act)
        return left_us > 0

    def touch(self) -> None:
        """Record that the present event concerns this node."""
        self._observer.touch(self._node)

    def lane_delay_us(self) -> int:
        """How long the next turn of a lane takes; the disk is slow now and then."""
        storage, rng = self._surroundings.storage, self._node.rng
        if rng.random() < 1 - storage.slow_probability:
            return rng.randint(storage.turn_us_min, storage.turn_us_max)
        return rng.randint(storage.slow_turn_us_min, storage.slow_turn_us_max)

    def cannot_write(self, problem: Interrupted | StorageError) -> None:
        """End the process: a lane was interrupted, or the disk gave an error."""
        node = self._node
        node.interrupted(problem, "writing") if isinstance(problem, Interrupted) else node.failed(problem)

    def _ring(self) -> None:
        self.touch()
        self._observer.woken(self._node)
        self.host.on_tick(self._node.clock.instant)

    def perform(self, jobs: Sequence[Job]) -> Io:
        """Carry out these jobs on the disk. Errors: Interrupted, StorageError."""
        self._observer.performs(self._node, jobs)
        return self.host.lane.perform(jobs)

    def persisted(self) -> None:
        """Called when no storage job waits or is being done."""
        self._observer.persisted(self._node)

    def io_done(self, io: Io) -> None:
        """Tell the host that everything up to this job is durable."""
        self.host.on_io(io, self._node.clock.instant)


class SimulatedNode:
    """A machine with its disk; at most one process runs on it at a time."""

    observer: NodeObserver[SimulatedNode]
    """It must be set before the first process starts."""

    def __init__(self, config: NodeConfig, rng: Random, surroundings: Surroundings) -> None:
        assert config.node_id is not None
        self.surroundings = surroundings
        self.node_id = config.node_id
        self.config = config
        self.rng = rng
        self.disk = VirtualDisk(Random(rng.random()), surroundings.storage)
        self.clock = NodeClock(surroundings.clock)
        self.core: type[Raft] = Raft
        """What decides: our core, or one that follows Kafka's rules."""
        self.dialect: Dialect | None = None
        """The older release that this node runs; None: the present one."""
        self.process: Process | None = None
        self.last_role = "recovering"
        """Role of the last process when it ended."""
        self.ledger = Ledger()
        """The log as the running process sees it."""
        self.key = ReplicaKey(config.node_id, config.directory_id)
        """Node id and directory id; the directory id is that of the disk, None until it is known."""
        self.first_voters = config.voters
        """The first voters according to its configuration and its checkpoint."""
        self.principal = certificate_of(config.node_id) if config.security else ANONYMOUS
        """Whom its processes prove to be."""
        self.authorizer: Authorizer | None = None
        """Decides what others may do; its rules outlast a process. None: everything."""
        if config.security:
            self.authorizer = Authorizer(AuthorizerSettings(), parse_acls(ACLS, "simulated"))

    @property
    def host(self) -> Host | None:
        """The host of the running process."""
        return self.process.host if self.process is not None else None

    @property
    def status(self) -> Status | None:
        """The status of the running process."""
        return self.process.host.status if self.process is not None else None

    def start(self) -> None:
        """Start a process from what the disk holds. It may end during recovery; a stalled disk delays the start."""
        assert self.process is None
        self.observer.starting(self)
        if self.disk.io_errors.stalled_until_us > self.surroundings.clock.now_us:
            self.observer.process_ended(self)
            return
        self.surroundings.trace.note(self.node_id, "starts")
        self.observer.touch(self)
        try:
            self.process = Process(self)
        except Interrupted as interruption:
            self.interrupted(interruption, "recovering")
            return
        except StorageError as error:
            self.failed(error)
            return
        if self.process.host.directory_id != self.key.directory_id:
            self.key = ReplicaKey(self.node_id, self.process.host.directory_id)
        self.observer.started(self)
        self.process.start()

    def interrupted(self, interruption: Interrupted, doing: str) -> None:
        """The process ended in the middle of a disk operation."""
        self.surroundings.trace.note(self.node_id, f"{interruption} while {doing}")
        self.observer.interrupted(self, interruption)
        if interruption.loses_power:
            self.lose_power()
        else:
            self.kill()

    def kill(self) -> None:
        """End the process as ``kill -9`` does: its writes stay in the page cache."""
        self._end()
        self.disk.drop_handles()

    def lose_power(self) -> None:
        """Take the power: the process ends, and everything that was not synced may be lost."""
        self._end(is_silent=True)
        self.observer.power_goes(self)
        self.disk.lose_power()

    def failed(self, error: StorageError) -> None:
        """The program ended with a storage error; oracles check that its disk caused the error."""
        self.observer.stopped(self, error)
        self.surroundings.trace.note(self.node_id, f"stops: {error}")
        self.kill()
        self.observer.disk_failed(self, error)

    def stopped(self, error: Exception | None) -> None:
        """The host stopped, with an error or after a shutdown."""
        process = self.process
        self.observer.stopped(self, error)
        self.surroundings.clock.after(0, lambda: self._leave(process))

    @property
    def is_damaged(self) -> bool:
        """True while the process knows that part of its log is lost."""
        return (status := self.status) is not None and status.quarantine is not None

    def was_paused_since(self, at_us: int) -> bool:
        """True when the process stood still at any time since then."""
        return self.process is not None and (self.process.is_paused or self.process.resumed_us >= at_us)

    def _leave(self, process: Process | None) -> None:
        if process is None or self.process is not process:
            return
        try:
            if process.is_idle:
                process.host.close()
        except Interrupted as interruption:
            self.interrupted(interruption, "closing")
            return
        except StorageError as error:
            self.failed(error)
            return
        self.kill()

    def _end(self, *, is_silent: bool = False) -> None:
        self.observer.touch(self)
        if self.process is not None:
            self.last_role = self.process.host.status.role
            self.process.end(is_silent=is_silent)
            self.process = None
        self.observer.process_ended(self)
