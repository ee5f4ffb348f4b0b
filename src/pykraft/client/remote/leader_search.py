"""A client's search for the leader: which node to ask next, for how long, and over which connection.

`LeaderSearch` knows the nodes and the epoch, without connections or a clock; `pykraft.client.remote.no_leader` knows
what is wrong with each node. `LeaderClient` tries one node after the other. Invariants: the epoch never goes back; the
leader is a node that somebody named for this epoch and that has not failed since; a connection is kept only after a
whole answer, so that nobody reads the answer to an earlier request.

Source: KIP-595 (every error answer carries leader and epoch), KIP-853 (and the leader's endpoint).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Self, TypeAlias, TypeVar

from pykraft.client.arguments import nodes_to_contact
from pykraft.client.remote.connection import Connection, Dialer
from pykraft.client.remote.no_leader import AskedNodes, voters_at
from pykraft.errors import UnreachableError
from pykraft.types import Endpoint, Epoch, NodeId

T = TypeVar("T")
OnWaiting: TypeAlias = Callable[[str | None], None]
"""Called while no leader is found, with what is wrong with each node; with None when the wait is over."""
TRIES_WITHOUT_PAUSE: Final = 2


def do_not_tell(story: str | None) -> None:
    """An `OnWaiting` for a program that does not want to know."""
    del story


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a client keeps trying without a useful answer, in ms, and whom it tells meanwhile."""

    timeout_ms: int = 15_000
    request_timeout_ms: int = 5_000
    """For connecting, for negotiating, and for an answer, in addition to the time that a fetch may wait for records."""
    retry_backoff_ms: int = 50
    on_waiting: OnWaiting = do_not_tell


PATIENCE: Final = Patience()


class LeaderSearch:
    """Starts with a bootstrap list and remembers nodes that are named as leaders, up to ENDPOINTS_MAX nodes."""

    def __init__(self, bootstrap: Sequence[Endpoint]) -> None:
        """Errors: UsageError for what is not a list of endpoints, and for an empty one."""
        self.epoch = Epoch(0)
        """The highest epoch in any answer."""
        self.leader: Endpoint | None = None
        self.nodes = nodes_to_contact("bootstrap", bootstrap)
        self.asked = AskedNodes(self.nodes)
        """What was wrong with each node since the last answer of a leader."""

    @property
    def whom(self) -> Endpoint:
        """The node to ask next: the leader, or else the node that was not asked for the longest time."""
        return self.leader or self.nodes[0]

    @property
    def is_nobody_there(self) -> bool:
        """True when every known node was unreachable since the last answer of a leader."""
        return self.asked.are_all_silent(self.nodes)

    def told(self, node: Endpoint, voters: Mapping[NodeId, Endpoint], problem: str | None) -> None:
        """This node named the voters: ask them too. It has this problem itself. None when it does not tell."""
        self.nodes += self.asked.add_voters(voters)
        if problem is not None:
            self.asked.note(node, problem, has_answered=True)

    def led(self, node: Endpoint) -> None:
        """This node answered as the leader of `epoch`."""
        self.leader = node
        self.asked.clear()

    def redirected(self, node: Endpoint, epoch: Epoch, leader: Endpoint | None, problem: str) -> None:
        """This node does not lead; it knows this epoch, and the leader's endpoint or None."""
        self._note(node, problem, has_answered=True)
        if epoch > self.epoch:
            self.epoch = epoch
            self.leader = None
        # An older epoch: the leader that it names may have resigned.
        if epoch < self.epoch:
            return
        # A node that refused as "not leader" cannot be the leader, even if it names itself.
        self.leader = leader if leader != node else None
        if leader is not None and self.asked.add(leader):
            self.nodes.append(leader)

    def failed(self, node: Endpoint, problem: str) -> None:
        """This node could not be reached, or its answer was unusable."""
        self._note(node, problem, has_answered=False)

    def _note(self, node: Endpoint, problem: str, *, has_answered: bool) -> None:
        """Remember the problem, and ask this node last, under each of its names."""
        self.asked.note(node, problem, has_answered=has_answered)
        known = self.asked.known_as(node)
        self.nodes.sort(key=lambda each: self.asked.known_as(each) == known)
        if node == self.leader:
            self.leader = None


class LeaderClient:
    """Use it in ``async with``, within one event loop; one request at a time."""

    def __init__(self, bootstrap: Sequence[Endpoint], *, client_id: str, patience: Patience = PATIENCE) -> None:
        """``bootstrap`` has some nodes of the quorum."""
        self._search = LeaderSearch(bootstrap)
        self._patience = patience
        self._dialer = Dialer(client_id, resolved=self._search.asked.resolved)
        self._connection: Connection | None = None
        self._was_heard = False
        self._tries = 0
        self._deadline_s: float | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; nothing is waited for any more."""
        self._patience.on_waiting(None)
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def accept(self) -> None:
        """The last answer was useful: reset the time limit and the tries."""
        if self._tries > TRIES_WITHOUT_PAUSE:
            self._patience.on_waiting(None)
        self._tries, self._deadline_s = 0, None

    async def pause(self) -> None:
        """Wait briefly, so that nodes do not get a storm of requests."""
        await asyncio.sleep(self._patience.retry_backoff_ms / 1_000)

    async def _until_done(self, try_once: Callable[[], Awaitable[T | None]]) -> T:
        """Try until there is a result. Errors: as `_go_on`."""
        self._tries, self._deadline_s = 0, None
        result = await self._go_on(try_once)
        self.accept()
        return result

    async def _go_on(self, try_once: Callable[[], Awaitable[T | None]]) -> T:
        """Try on until there is a result, within the time since the last `accept`; pause after the first few tries.

        Errors: QuorumUnavailableError when the time is over; those of ``try_once``.
        """
        loop = asyncio.get_running_loop()
        if self._deadline_s is None:
            self._deadline_s = loop.time() + self._patience.timeout_ms / 1_000
        while True:
            if self._tries and loop.time() >= self._deadline_s:
                self._deadline_s = None
                raise self._search.asked.unavailable(self._patience.timeout_ms)
            if self._tries > TRIES_WITHOUT_PAUSE:
                self._patience.on_waiting(self._search.asked.story)
                await self.pause()
            self._tries += 1
            result = await self._once(try_once)
            if result is not None:
                return result
            # Only in trouble: a first redirect names the leader, and who the voters are does not matter then.
            if self._tries > TRIES_WITHOUT_PAUSE and self._connection is not None:
                with suppress(UnreachableError):
                    timeout_ms = self._patience.request_timeout_ms
                    voters, problem = await voters_at(self._connection, timeout_ms=timeout_ms)
                    self._search.told(self._connection.endpoint, voters, problem)

    async def _once(self, try_once: Callable[[], Awaitable[T | None]]) -> T | None:
        """None also for a node that is of no use.

        Errors: QuorumUnavailableError when no node has ever answered, instead of waiting for an election.
        """
        try:
            return await try_once()
        except UnreachableError as error:
            node, problem = error.endpoint, error.problem
        assert isinstance(node, Endpoint), "every connection has one"
        self._search.failed(node, problem)
        if self._search.is_nobody_there and not self._was_heard:
            raise self._search.asked.silent()
        return None

    async def _connected(self, node: Endpoint) -> Connection:
        """The open connection if it goes to that node and still stands, or a new one; the caller puts it back.

        Errors: UnreachableError.
        """
        connection, self._connection = self._connection, None
        if connection is not None and connection.endpoint == node and connection.is_open:
            return connection
        if connection is not None:
            await connection.close()
        return await self._dialer.connect(node, self._patience.request_timeout_ms)
