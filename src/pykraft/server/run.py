"""From a configuration to a running node and its exit: the loop, signals, the workload and the story at the end.

Source: Kafka ``TestRaftServer.main``; ``Exit`` codes are the command line's.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass

from pykraft.config import NodeConfig
from pykraft.errors import UsageError
from pykraft.server.ack_pipe import AckPipe
from pykraft.server.node import Node
from pykraft.server.workload import Load, Workload

SWITCH_INTERVAL_S = 0.0005
"""How long the loop may hold the interpreter while a lane thread waits for it."""

logger = logging.getLogger("pykraft")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """What the command line adds to the configuration; ``load`` None means no workload."""

    load: Load | None
    ack_descriptor: int | None = None
    loop: str = "auto"


def serve(config: NodeConfig, options: ServerOptions) -> None:
    """Run a node until it is told to stop or fails.

    Errors: PykraftError or OSError, whatever ended it.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    with asyncio.Runner(loop_factory=loop_factory(options.loop)) as runner:
        runner.run(_serve(config, options))


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    """How to make the loop: ``uvloop``, ``asyncio``, or ``auto`` for the faster one that is installed.

    Errors: UsageError when uvloop is asked for and absent.
    """
    if name == "asyncio":
        return asyncio.new_event_loop
    try:
        import uvloop
    except ImportError as error:
        if name == "uvloop":
            raise UsageError("--loop uvloop: it is not installed; pip install 'pykraft[fast]'") from error
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


async def _serve(config: NodeConfig, options: ServerOptions) -> None:
    loop = asyncio.get_running_loop()
    acks = AckPipe(loop, options.ack_descriptor) if options.ack_descriptor is not None else None
    node = Node(config, loop)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, node.shut_down)
    workload = Workload(node, loop, options.load, acks) if options.load is not None else None
    if workload is not None:
        node.host.register(workload)
    await node.start()
    if acks is not None:
        run = workload.run_id.hex() if workload is not None else ""
        port = config.listeners.entries[0][1].port
        acks.tell("started", node=config.node_id, run=run, pid=os.getpid(), port=port)
    logger.info("node %s serves %s", config.node_id, ", ".join(f"{name}://{at}" for name, at in config.listeners))
    try:
        await node.run()
    finally:
        if workload is not None:
            workload.close()
        if acks is not None:
            acks.tell("stopped", node=config.node_id)
            acks.close()
