"""Runs a node as a process, from its configuration to its end: loop, signals, process limits, workload, journal.

Exit codes are the command line's.

Source: Kafka's ``TestRaftServer.main``.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final

from pykraft.config import NodeConfig
from pykraft.process.extras import imported_for
from pykraft.process.signals import ending_signals, handlers_restored
from pykraft.server.ack_pipe import AckPipe
from pykraft.server.descriptors import accepted_max
from pykraft.server.driver import Driver
from pykraft.server.load_snapshots import LoadSnapshots
from pykraft.server.service_manager import notify_ready
from pykraft.server.workload import RUN_ID_SIZE_BYTES, Load, Workload

SWITCH_INTERVAL_S: Final = 0.0005
"""How long the loop may hold the interpreter while a lane thread waits for it."""

logger = logging.getLogger("pykraft")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Options that the command line adds to the configuration; ``load`` None means no workload."""

    load: Load | None
    ack_descriptor: int | None = None
    loop: str = "auto"


def serve(config: NodeConfig, options: ServerOptions) -> None:
    """Run a node until it is told to stop or fails.

    Errors: PykraftError, or the bug that ended it.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    # uvloop leaves handlers of its own, which do nothing once the loop is closed.
    with (
        handlers_restored((*ending_signals(), signal.SIGUSR1)),
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
    tell = acks.tell if acks is not None else _tell_nobody
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
                tell=tell,
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
            acks.tell("stopped", node=config.node_id)
            acks.close()


def _tell_nobody(event: str, **fields: object) -> None:
    """The journal of a node without an ``ack_descriptor``."""
