"""The voters of a replicated state machine's quorum, changed from inside: by any of its nodes, while it works.

A new node starts with the addresses of the voters, follows them without a vote, and joins. A voter whose address has
changed needs nothing: it starts with the new one and tells the leader itself. Invariant: one voter is added or removed
at a time, by the leader, so the majorities before and after a change share a voter.

Source: KIP-853; ours (ADR 089).
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Final

from pykraft.client.arguments import INT32_MAX, whole_number
from pykraft.client.node import Node
from pykraft.client.remote.admin import Admin
from pykraft.client.remote.leader_search import Patience
from pykraft.client.remote.quorum import Quorum
from pykraft.config import NodeConfig
from pykraft.errors import OutcomeUnknownError, RefusedError, UsageError
from pykraft.types import Endpoint, Listeners, NodeId, ReplicaKey, Uuid

TIMEOUT_MS: Final = 30_000
"""How long a change tries by default."""
PAUSE_S: Final = 0.1
"""Between two tries of a change."""
LEVEL_IN_LOG: Final = 1
"""The level of ``kraft.version`` at which the voters are in the log."""


class Membership:
    """The voters, by way of one node: see `Replicated.membership`.

    Every call may raise RefusedError with the leader's reason, QuorumUnavailableError when no leader was found, and
    OutcomeUnknownError when a change may still be made: describe the quorum, then ask again.
    """

    def __init__(self, node: Node[bytes], config: NodeConfig, *, timeout_ms: int = TIMEOUT_MS) -> None:
        self._node = node
        self._config = config
        self._timeout_ms = timeout_ms

    async def describe(self) -> Quorum:
        """Who votes and who observes, and how far each node is, as the leader sees it."""
        async with self._admin() as admin:
            return await admin.describe_quorum()

    async def allow_changes(self) -> None:
        """Move the voters into the log, where they can be changed; once for a quorum, and it cannot be undone.

        It waits until the leader has heard of all voters. Nothing happens if they are in the log already.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._timeout_ms / 1_000
        async with self._admin() as admin:
            while True:
                try:
                    return await admin.upgrade_kraft_version(LEVEL_IN_LOG)
                except RefusedError:
                    # A leader that has just started has heard of nobody, and has committed nothing.
                    if loop.time() >= deadline_s:
                        raise
                await asyncio.sleep(PAUSE_S)

    async def join(self) -> None:
        """Make this node, which follows the quorum, a voter; nothing if it is one. Errors: UsageError without an id."""
        if self._node.node_id is None:
            raise UsageError("a node without an id only observes: give it one in its configuration")
        directory_id: Uuid = await self._node.ask(lambda host, answer: answer(host.directory_id))
        key = ReplicaKey(self._node.node_id, directory_id)
        listeners = Listeners(((self._config.default_listener, self._node.endpoint),))

        async with self._admin() as admin:
            if key not in await _voters(admin):
                add = partial(admin.add_voter, key, listeners, timeout_ms=self._timeout_ms)
                await self._change(admin, add, is_made=lambda voters: key in voters)

    async def remove(self, node_id: int) -> None:
        """Remove a voter, which may have died; a leader then resigns. It goes on without a vote, until it is closed.

        Errors: UsageError for a node that is not a voter.
        """
        wanted = NodeId(whole_number("node_id", node_id, least=0, most=INT32_MAX))

        async with self._admin() as admin:
            voters = await _voters(admin)
            key = next((key for key in voters if key.id == wanted), None)
            if key is None:
                known = ", ".join(map(str, sorted(key.id for key in voters)))
                raise UsageError(f"node {wanted} is not a voter: the voters are {known}")
            await self._change(admin, partial(admin.remove_voter, key), is_made=lambda voters: key not in voters)

    async def replace(self, node_id: int) -> None:
        """Join in the place of a voter, which may have died: this node joins first, then the other one is removed.

        A node that lost its disk comes back under its own id in another way: remove it, then let it join.
        """
        if node_id == self._node.node_id:
            raise UsageError(f"node {node_id} cannot replace itself: remove it, then let it join")
        await self.join()
        await self.remove(node_id)

    async def _change(
        self, admin: Admin, act: Callable[[], Awaitable[None]], *, is_made: Callable[[Collection[ReplicaKey]], bool]
    ) -> None:
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._timeout_ms / 1_000
        is_repeated = False
        while True:
            try:
                return await act()
            except RefusedError:
                # A leader refuses to repeat a change that is made, and only while no other is pending.
                if is_repeated and is_made(await _voters(admin)):
                    return None
                raise
            except OutcomeUnknownError as error:
                # A leader has answered, so the quorum works, and a later answer decides.
                if not isinstance(error.__cause__, RefusedError) or loop.time() >= deadline_s:
                    raise
            is_repeated = True
            await asyncio.sleep(PAUSE_S)

    def _admin(self) -> Admin:
        voters = self._node.latest_voter_set.voters
        known: list[Endpoint] = [next(iter(voter.listeners))[1] for voter in voters if len(voter.listeners)]
        patience = Patience(timeout_ms=self._timeout_ms, request_timeout_ms=self._timeout_ms)
        return Admin(
            known,
            cluster_id=self._config.cluster_id,
            client_id="pykraft-membership",
            patience=patience,
            security=self._config.security_between_nodes,
        )


async def _voters(admin: Admin) -> list[ReplicaKey]:
    return [voter.key for voter in (await admin.describe_quorum()).voters]
