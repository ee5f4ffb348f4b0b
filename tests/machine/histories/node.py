"""A program with a key-value store and its clients, to be killed: ``python -m tests.machine.histories.node OPTIONS``.

OPTIONS is JSON, see `Options`. Standard input has commands, a line of JSON each, and ends with the program:

    {"do": "clock", "ms": -86400000}          time.time() and time.time_ns() show so much more from now on
    {"do": "enough"}                          the clients call nothing more
    {"do": "allow", "number": 3}              move the voters into the log; likewise "join", and with an id in "node"
    {"do": "remove", "node": 2, "number": 4}  "remove" and "replace"

What the node was told is written to ``file``: the events of the clients, ``started``, and ``changed`` with the number
of a command and its error. The node dials others under the name by which proxies know it, also to forward commands, so
that a partition cuts those, too.
"""

import asyncio
import itertools
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Final

from pykraft.client import configure, until_signal
from pykraft.client.remote.connection import ClientDialer
from pykraft.config import LogSettings, NodeConfig, RaftConfig
from pykraft.errors import PykraftError
from pykraft.local.voters import HOST, LISTENER
from pykraft.machine import Replicated
from pykraft.machine.replicated import MachineRuntime
from pykraft.recipes import KeyValues, KeyValueStore
from pykraft.types import Endpoint, Listeners
from tests.machine.histories.client import OF_READERS, SHARES, TIMEOUT_MS, StoreClient, Teller
from tests.machine.histories.planted import PLANTS

QUICK: Final = RaftConfig(
    election_timeout_ms=500, fetch_timeout_ms=1_000, election_backoff_max_ms=250, fetch_wait_ms_max=100
)
SMALL: Final = LogSettings(
    segment_size_bytes=40_000,
    snapshot_record_bytes_max=60_000,
    retention_size_bytes_max=100_000,
    retention_age_ms_max=3_600_000,
    clean_interval_ms=1_000,
    delete_delay_ms=100,
)
"""Snapshots every few seconds, and files that are deleted by size, and by age when a clock jumps."""
LIFE: Final = 1_000_000
"""Values and processes of one life of a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How the program runs. ``life`` is a number that no other start of any node has."""

    node_id: int
    life: int
    listen: int
    advertised: int
    voters: dict[int, int]
    """The advertised ports of the voters that this node knows, by id."""
    cluster_id: str
    directory: str
    file: str
    clients: int
    """The first of them only reads."""
    seed: int
    clock_ms: int = 0
    plant: str = ""


class WallClock:
    """The wall clock of this process: all Python code that reads it sees ``offset_ms``."""

    def __init__(self, offset_ms: int) -> None:
        self.offset_ms = offset_ms
        real_ns, real = time.time_ns, time.time
        time.time_ns = lambda: real_ns() + self.offset_ms * 1_000_000
        time.time = lambda: real() + self.offset_ms / 1_000


def config_of(options: Options) -> NodeConfig:
    """The node listens on a port of its own, and tells others that of its proxy."""
    config = configure(
        options.directory,
        node_id=options.node_id,
        voters={node_id: f"{HOST}:{port}" for node_id, port in options.voters.items()},
        listen=f"{HOST}:{options.listen}",
        cluster_id=options.cluster_id,
        raft=QUICK,
        log=SMALL,
    )
    return replace(config, advertised_listeners=Listeners(((LISTENER, Endpoint(HOST, options.advertised)),)))


async def run(options: Options) -> None:
    """Run until a signal or the end of the input."""
    clock = WallClock(options.clock_ms)
    descriptor = os.open(options.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    if options.plant:
        PLANTS[options.plant]()
    runtime = MachineRuntime(connect=ClientDialer(f"raft-client-{options.node_id}").connect)
    node = Replicated(config_of(options), KeyValues(), own_thread=options.node_id % 2 == 0, runtime=runtime)
    teller = Teller(descriptor, options.node_id, lambda: node.node.leader_and_epoch.is_leader(node.node.node_id))
    enough = asyncio.Event()
    rng = Random(f"{options.seed} {options.life}")
    begin = options.life * LIFE
    numbers, processes = itertools.count(begin), itertools.count(begin)
    async with until_signal(), node, asyncio.TaskGroup() as group:
        teller.write(type="started")
        store = KeyValueStore(node, timeout_ms=TIMEOUT_MS)
        for at in range(options.clients):
            shares = OF_READERS if at == 0 else SHARES
            client = StoreClient(store, teller, Random(rng.random()), numbers.__next__, processes.__next__, shares)
            group.create_task(client.run(enough))
        async with _commands() as commands:
            async for command in commands:
                if command["do"] == "clock":
                    clock.offset_ms += command["ms"]
                elif command["do"] == "enough":
                    enough.set()
                else:
                    group.create_task(_change(node, command, teller))
        enough.set()


async def _change(node: Replicated[KeyValues], command: dict[str, Any], teller: Teller) -> None:
    """Change the voters, and tell what became of it."""
    membership = node.membership
    acts: dict[str, Callable[[], Awaitable[object]]] = {
        "allow": membership.allow_changes,
        "join": membership.join,
        "remove": lambda: membership.remove(command["node"]),
        "replace": lambda: membership.replace(command["node"]),
    }
    error = ""
    try:
        await acts[command["do"]]()
    except PykraftError as found:
        error = f"{type(found).__name__}: {found}"
    teller.write(type="changed", number=command["number"], error=error)


@asynccontextmanager
async def _commands() -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """The lines of the standard input."""
    reader = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )

    async def lines() -> AsyncIterator[dict[str, Any]]:
        async for line in reader:
            yield json.loads(line)

    try:
        yield lines()
    finally:
        transport.close()


def main(words: list[str]) -> None:
    """Run the program."""
    told = json.loads(words[0])
    told["voters"] = {int(node_id): port for node_id, port in told["voters"].items()}
    options = Options(**told)
    Path(options.directory).mkdir(parents=True, exist_ok=True)
    asyncio.run(run(options))


if __name__ == "__main__":
    main(sys.argv[1:])
