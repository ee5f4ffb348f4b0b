"""A quorum under load whose voters change, while nodes are killed with -9.

The changes are made as an operator makes them: repeated until the quorum says that they are done. Tests choose their
order. Invariant: the cluster's journal, outside of all nodes, holds everything that any node acknowledged.

When a node dies during a change, the outcome is unknown (OutcomeUnknownError). The request is repeated. Then it either
succeeds, or the answer says that it was done before: DUPLICATE_VOTER or VOTER_NOT_FOUND, which leaders give only when
no change is under way.
"""

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Mapping
from random import Random
from threading import Thread
from typing import Final, TypeAlias

from lab.nodes.cluster import Cluster, PykraftNode
from pykraft.cli.quorum.command import described_node
from pykraft.client.remote.admin import Admin
from pykraft.client.remote.leader_search import Patience
from pykraft.client.remote.quorum import Quorum
from pykraft.errors import ErrorCode, OutcomeUnknownError, PykraftError, QuorumUnavailableError, RefusedError
from pykraft.local.child import wait_until
from pykraft.local.voters import HOST, free_ports, joiner_properties, write_properties
from pykraft.types import Endpoint, Listeners, ReplicaKey

Act: TypeAlias = Callable[[Admin], Awaitable[None]]

NOTHING: Final[Mapping[str, str]] = {}
ATTEMPTS: Final = 20
PATIENT: Final = Patience(timeout_ms=20_000, request_timeout_ms=5_000)
DONE_BEFORE: Final = (ErrorCode.DUPLICATE_VOTER, ErrorCode.VOTER_NOT_FOUND)
WORTH_ANOTHER_ATTEMPT: Final = (RefusedError, QuorumUnavailableError, OutcomeUnknownError)
"""What an operator gets while a leader dies or has just been elected: each of them asks again."""
ACKNOWLEDGED_BEFORE_KILL_MAX: Final = 100
"""A victim dies when so many more records were acknowledged after a change was asked for."""
RECORDS_BETWEEN: Final = 200


class ChangingQuorum:
    """All nodes are in ``cluster.nodes``, voters or not; they all run whenever a change is asked for."""

    def __init__(self, cluster: Cluster, rng: Random, report: Callable[[str], None] = print) -> None:
        self.cluster = cluster
        self._rng = rng
        self._report = report

    @property
    def nodes(self) -> dict[int, PykraftNode]:
        """All of them, by id."""
        return self.cluster.nodes

    @property
    def bootstrap(self) -> str:
        """For a command line."""
        return ",".join(map(str, self.cluster.endpoints))

    @property
    def leader(self) -> PykraftNode:
        """Who leads in the eyes of the quorum."""
        return self.nodes[self.describe().leader_id]

    def describe(self) -> Quorum:
        """The quorum as its leader sees it."""

        async def ask() -> Quorum:
            async with Admin(self.cluster.endpoints, patience=PATIENT) as admin:
                return await admin.describe_quorum()

        return asyncio.run(ask())

    def voters(self) -> dict[int, ReplicaKey]:
        """Who votes, by id."""
        return {int(voter.key.id): voter.key for voter in self.describe().voters}

    def works(self) -> None:
        """Wait until the quorum has acknowledged more."""
        self.cluster.journal.wait_for_acknowledged(RECORDS_BETWEEN, since=self.cluster.journal.mark())

    def join(self, node_id: int, properties: Mapping[str, str] = NOTHING) -> PykraftNode:
        """A new node with an empty directory watches the quorum."""
        node = self.cluster.join(node_id, properties)
        self.start(node)
        return node

    def start(self, node: PykraftNode) -> None:
        """Start a node, the first time or again, and wait until it serves."""
        node.start()
        self.cluster.journal.wait_for_started(node.node_id, since=node.start_mark, process=node.process)

    def upgrade(self, victim: PykraftNode | None = None) -> None:
        """Move static voters into the log, once all of them have told who they are."""
        self.change("upgrade", lambda admin: admin.upgrade_kraft_version(1), victim)

    def add(self, node: PykraftNode, victim: PykraftNode | None = None) -> None:
        """Make it a voter, once it has caught up."""
        key, listeners = identity(node)
        self.change(f"add {node.node_id}", lambda admin: admin.add_voter(key, listeners), victim)
        assert self.voters()[node.node_id] == key

    def remove(self, key: ReplicaKey, victim: PykraftNode | None = None) -> None:
        """Take a voter out; its node goes on as an observer."""
        self.change(f"remove {key.id}", lambda admin: admin.remove_voter(key), victim)
        assert key not in self.voters().values()

    def transfer(self, node_id: int, victim: PykraftNode | None = None) -> None:
        """Ask once that this voter leads; whether it does or not, the quorum works on."""

        async def act(admin: Admin) -> None:
            await admin.transfer_leadership(node_id)

        asking = _Asking(self.cluster.endpoints, act)
        self._kill(victim)
        error = asking.result()
        self._report(f"transfer to {node_id}: {'done' if error is None else error}")
        if error is not None and not isinstance(error, WORTH_ANOTHER_ATTEMPT):
            raise error

    def replace_disk(self, node: PykraftNode, properties: Mapping[str, str] = NOTHING) -> ReplicaKey:
        """The node dies, and comes back with an empty directory and a new directory id; returns its former key."""
        former, _ = identity(node)
        node.process.kill()
        shutil.rmtree(node.partition.parent)
        self.configure(node, properties)
        node.format("--no-initial-controllers")
        self.start(node)
        return former

    def move(self, node: PykraftNode, victim: PykraftNode | None = None) -> None:
        """The node is started at another port, which its entry in the voter set then has."""
        node.port = free_ports(1)[0]
        self.restart(node)
        self._report(f"move {node.node_id} to {node.port}")
        self._kill(victim)
        self.wait_for(
            lambda quorum: any(Endpoint(HOST, node.port) in dict(each.listeners).values() for each in quorum.voters),
            f"the entry of node {node.node_id} to have its new port",
        )

    def restart(self, node: PykraftNode) -> None:
        """Kill it, and start it with where the others are now."""
        node.process.kill()
        self.configure(node)
        self.start(node)

    def configure(self, node: PykraftNode, properties: Mapping[str, str] = NOTHING) -> None:
        """Write its properties anew, with where the others are now; they hold from its next start on."""
        values = joiner_properties(
            node.partition.parent,
            node_id=node.node_id,
            port=node.port,
            bootstrap=self.cluster.endpoints,
            extra={**self.cluster.properties, **properties},
        )
        write_properties(node.config, values)

    def change(self, what: str, act: Act, victim: PykraftNode | None) -> None:
        """Ask until it is done; the victim is killed once, while it is asked for, and started again."""
        for _ in range(ATTEMPTS):
            asking = _Asking(self.cluster.endpoints, act)
            self._kill(victim)
            victim = None
            error = asking.result()
            self._report(f"{what}: {'done' if error is None else error}")
            if error is None or (isinstance(error, RefusedError) and error.code in DONE_BEFORE):
                return
            if not isinstance(error, WORTH_ANOTHER_ATTEMPT):
                raise error
            self.works()
        raise AssertionError(f"{what} was not done in {ATTEMPTS} attempts")

    def wait_for_voter(self, node: PykraftNode) -> None:
        """Wait until it votes, with the directory that it has now."""
        key, _ = identity(node)
        self.wait_for(
            lambda quorum: key in [voter.key for voter in quorum.voters], f"node {node.node_id} to become a voter"
        )

    def wait_for(self, condition: Callable[[Quorum], bool], what: str) -> None:
        """Wait until the quorum is described like this."""

        def see() -> bool:
            try:
                return condition(self.describe())
            except PykraftError:
                return False

        wait_until(see, what, timeout_s=60, alive=[node.process for node in self.nodes.values()])

    def _kill(self, victim: PykraftNode | None) -> None:
        if victim is None:
            return
        count = self._rng.randrange(ACKNOWLEDGED_BEFORE_KILL_MAX)
        if count:
            self.cluster.journal.wait_for_acknowledged(count, since=self.cluster.journal.mark())
        victim.process.kill()
        self._report(f"killed {victim.node_id}")
        self.start(victim)


def identity(node: PykraftNode) -> tuple[ReplicaKey, Listeners]:
    """Who it is and where it listens, as an operator's command finds it out."""
    return described_node(node.config)


class _Asking:
    def __init__(self, endpoints: list[Endpoint], act: Act) -> None:
        self._endpoints = endpoints
        self._act = act
        self._error: Exception | None = None
        self._thread = Thread(target=self._run, name="asking", daemon=True)
        self._thread.start()

    def result(self) -> Exception | None:
        """Wait for the answer; the error if it is one."""
        self._thread.join()
        return self._error

    def _run(self) -> None:
        async def ask() -> None:
            async with Admin(self._endpoints, patience=PATIENT) as admin:
                await self._act(admin)

        try:
            asyncio.run(ask())
        except Exception as error:  # noqa: BLE001 - told by result
            self._error = error
