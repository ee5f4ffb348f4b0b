"""Runs a node as a process, from its configuration to its end: loop, signals, process limits, workload, journal.

Exit codes are the command line's. A node under load takes snapshots, so that its disk stays bounded. The load keeps no
state, so a snapshot has one record, which names the end of what it stands for, and replicas write the same bytes.

The process that started the node learns what the node acknowledged, as JSON lines on a file descriptor, and can keep a
journal outside the node: ``started`` (node, run, pid, port), ``leader`` (node, run, epoch), ``ack`` (node, run, epoch,
first_sequence, count, base_offset, wall_ms, latency_ms), ``resigned`` (node, epoch), ``stopped`` (node). Lines leave
whole and in order, and writing never blocks the loop. If the reader is gone or does not read, the node ends, because a
journal with gaps proves nothing.

Invariants: a log whose newest snapshot belongs to an application gets none from here, since that would drop the
application's state. A node that systemd did not start, or whose service manager cannot be reached, runs just the same.

Source: Kafka's ``TestRaftServer.main``; KIP-630; Kafka's ``metadata.log.*`` and ``metadata.max.retention.*``;
``sd_notify(3)``.
"""

import asyncio
import gc
import json
import logging
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from pykraft.config import NodeConfig
from pykraft.errors import PykraftError, SnapshotFailedError, UsageError
from pykraft.host.delivery import CommittedBatch
from pykraft.host.host import Host
from pykraft.host.snapshots.creation import Loader, NewSnapshot
from pykraft.process.extras import imported_for
from pykraft.process.signals import ending_signals, handlers_restored
from pykraft.server.binding import accepted_max
from pykraft.server.driver import Driver
from pykraft.server.workload import RUN_ID_SIZE_BYTES, Load, Workload
from pykraft.snapshot.head import SnapshotReader
from pykraft.types import Epoch, NodeId, OffsetAndEpoch

_READY: Final = b"READY=1"
_VARIABLE: Final = "NOTIFY_SOCKET"

logger = logging.getLogger("pykraft")


def notify_ready() -> None:
    """Tell the service manager; without one it does nothing."""
    name = os.environ.get(_VARIABLE, "")
    if not name:
        return
    address = f"\0{name[1:]}" if name.startswith("@") else name
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as connection:
            connection.sendto(_READY, address)
    except OSError as error:
        logger.warning("%s %s: the service manager cannot be told: %s", _VARIABLE, name, error.strerror or error)


PENDING_SIZE_BYTES_MAX: Final = 16 * 1024 * 1024
LAST_WORDS_TIMEOUT_S: Final = 1.0


class AckPipe:
    """Writes lines to a descriptor as fast as the reader takes them."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, descriptor: int, *, failed: Callable[[BaseException], None]
    ) -> None:
        """``failed`` is called when nobody reads any more. Errors: UsageError when the descriptor is not open."""
        try:
            os.set_blocking(descriptor, False)
        except (OSError, OverflowError) as error:
            raise UsageError(f"--ack-fd {descriptor}: it is not an open file descriptor") from error
        self._loop = loop
        self._failed = failed
        self._descriptor = descriptor
        self._pending = bytearray()
        self._is_open = True

    def write(self, event: str, **fields: object) -> None:
        """Write one line; after the end of the pipe it is dropped."""
        if not self._is_open:
            return
        was_empty = not self._pending
        self._pending += json.dumps({"event": event, **fields}, separators=(",", ":")).encode() + b"\n"
        if len(self._pending) > PENDING_SIZE_BYTES_MAX:
            # A reader that does not read leaves gaps in its journal as surely as one that is gone.
            self._give_up(f"{len(self._pending)} bytes are unread, and the reader does not keep up")
        elif was_empty:
            self._write()

    def close(self) -> None:
        """Wait a moment for the reader to take everything, then close the descriptor."""
        deadline_s = time.monotonic() + LAST_WORDS_TIMEOUT_S
        poll = select.poll()
        while self._pending and self._is_open and (left_s := deadline_s - time.monotonic()) > 0:
            poll.register(self._descriptor, select.POLLOUT)
            poll.poll(left_s * 1_000)
            self._write()
        self._end()

    def _write(self) -> None:
        try:
            written = os.write(self._descriptor, self._pending)
        except BlockingIOError:
            written = 0
        except OSError as error:
            self._give_up(str(error))
            return
        del self._pending[:written]
        if self._pending:
            self._loop.add_writer(self._descriptor, self._write)
        else:
            self._loop.remove_writer(self._descriptor)

    def _give_up(self, reason: str) -> None:
        self._end()
        self._failed(UsageError(f"--ack-fd {self._descriptor}: {reason}"))

    def _end(self) -> None:
        self._pending.clear()
        if self._is_open:
            self._is_open = False
            self._loop.remove_writer(self._descriptor)
            with suppress(OSError):
                os.close(self._descriptor)


_MARK: Final = "pykraft-load"
_PREFIX: Final = f'{{"{_MARK}"'.encode()


class LoadSnapshots:
    """A listener that takes a snapshot whenever one is due; register it with its `loader`."""

    def __init__(self, host: Host, *, report: Callable[[str], None], failed: Callable[[Exception], None]) -> None:
        """``report`` gets lines for the log; ``failed`` gets bugs of ours."""
        self._host = host
        self._report = report
        self._failed = failed
        self._is_foreign = False

    @property
    def loader(self) -> Loader:
        """How the host gives and requests snapshots."""
        return Loader(deserializer=self, load=self._load, save=self._save)

    def serialize(self, record: OffsetAndEpoch) -> bytes:
        """The only record of a snapshot: which records of the load it stands for."""
        return json.dumps({_MARK: {"endOffset": record.offset, "epoch": record.epoch}}).encode()

    def deserialize(self, data: bytes) -> bytes:
        """A record of a snapshot, perhaps of an application's."""
        return data

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """See `pykraft.host.delivery.HostListener`; the host counts the bytes."""

    def on_leader_change(self, epoch: Epoch, leader_id: NodeId | None) -> None:
        """See `pykraft.host.delivery.HostListener`; followers take snapshots, too."""

    def _load(self, reader: SnapshotReader[bytes]) -> None:
        """Look whose snapshot this is, at its first record."""
        first = b""
        with closing(reader), suppress(PykraftError):  # a damaged one may be an application's
            first = next((record for batch in reader for record in batch.records), b"")
        self._is_foreign = not first.startswith(_PREFIX)
        if self._is_foreign:
            self._report(
                f"the snapshot at offset {reader.snapshot_id.offset} is an application's, so the load takes no "
                "snapshots, and the log grows without a bound"
            )

    def _save(self, snapshot_id: OffsetAndEpoch) -> None:
        if not self._is_foreign:
            self._host.create_snapshot(snapshot_id, self, self._begun)

    def _begun(self, taken: NewSnapshot | Exception | None) -> None:
        if isinstance(taken, Exception):
            # The log was truncated or cleaned meanwhile, say: the next snapshot is due soon.
            self._report(f"no snapshot of the load: {taken}")
        elif taken is not None:
            taken.append([taken.snapshot_id], lambda error: self._appended(taken, error))

    def _appended(self, taken: NewSnapshot, error: Exception | None) -> None:
        if error is None:
            taken.freeze(lambda result: self._frozen(taken, result))
        else:
            taken.close()
            # A failing disk is no bug: the node has reported it, and the next snapshot is due soon.
            if not isinstance(error, SnapshotFailedError):
                self._failed(error)

    def _frozen(self, taken: NewSnapshot, result: int | Exception) -> None:
        if isinstance(result, Exception):
            # Larger than pykraft.snapshot.max.bytes allows, say.
            taken.close()
            self._report(f"no snapshot of the load: {result}")


SWITCH_INTERVAL_S: Final = 0.0005
"""How long the loop may hold the interpreter while a lane thread waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Options that the command line adds to the configuration; ``load`` None means no workload."""

    load: Load | None
    ack_descriptor: int | None = None
    loop: str = "auto"


def serve(config: NodeConfig, options: ServerOptions) -> None:
    """Run a node until it is told to stop or fails. Errors: PykraftError, or the bug that ended it."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    # uvloop leaves handlers of its own, which do nothing once the loop is closed.
    with (
        handlers_restored((*ending_signals(), signal.SIGHUP, signal.SIGUSR1)),
        asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner,
    ):
        runner.run(_serve(config, options))


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """The factory of the loop: ``uvloop``, ``asyncio``, or ``auto`` for the faster one that is installed.

    Errors: UsageError when uvloop is requested and not installed.
    """
    if name == "asyncio":
        return asyncio.new_event_loop
    if name == "auto" and find_spec("uvloop") is None:
        return asyncio.new_event_loop
    with imported_for(f"--loop {name}"):
        import uvloop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _serve(config: NodeConfig, options: ServerOptions) -> None:
    loop = asyncio.get_running_loop()
    run_id = os.urandom(RUN_ID_SIZE_BYTES)
    acks: AckPipe | None = None

    def unread(error: BaseException) -> None:
        node.fail(error)

    if options.ack_descriptor is not None:
        acks = AckPipe(loop, options.ack_descriptor, failed=unread)
    tell = acks.write if acks is not None else _tell_nobody
    node = Driver(config, loop, accepted_max=accepted_max())

    def begin() -> None:
        if options.load is not None:
            batch_size_bytes_max = config.raft.batch_size_bytes_max
            workload = Workload(
                node.host,
                loop,
                options.load,
                run_id=run_id,
                batch_size_bytes_max=batch_size_bytes_max,
                write=tell,
                failed=node.fail,
            )
            # At the log end: the load has no state to build, and a leader is told that it leads only when its listener
            # has all that was committed before. A log of 4 GiB would keep the load waiting for seconds.
            node.host.register(workload, node.host.status.log_end_offset)
            if not config.is_kafkas_log:  # Kafka's controllers take the snapshots of their own log
                snapshots = LoadSnapshots(node.host, report=logger.info, failed=node.fail)
                node.host.register(snapshots, loader=snapshots.loader)
            loop.add_signal_handler(signal.SIGUSR1, workload.rest)
        for number in ending_signals():
            loop.add_signal_handler(number, node.shut_down)
        if (config.security or config.authorizer) and not any(map(os.isatty, range(3))):
            # At a terminal the signal says that it was closed, and ends the node as it does without files.
            loop.add_signal_handler(signal.SIGHUP, node.reload)
        port = config.listeners.entries[0][1].port
        tell("started", node=config.node_id, run=run_id.hex(), pid=os.getpid(), port=port)
        told = ", ".join(f"{name}://{endpoint}" for name, endpoint in config.listeners)
        logger.info("node %s of cluster %s serves %s", config.node_id, config.cluster_id, told)
        notify_ready()
        gc.freeze()  # these objects live as long as the process: collections need not look at them again

    try:
        await node.run(begin=begin)
    finally:
        if acks is not None:
            acks.write("stopped", node=config.node_id)
            acks.close()


def _tell_nobody(event: str, **fields: object) -> None:
    """The journal of a node without an ``ack_descriptor``."""
