"""Agrees on the version of the state machine's code: when all voters know its new commands, these may come.

1. The leader asks each voter for the version of its code, where the log places it.
2. When the lowest of these versions is higher than the one agreed on, it writes that into the log, as VERSION.
3. Every replica that applies the VERSION has agreed on it. Commands of that version wait for it outside of the log.

Invariant: no replica ever meets a command of a version that its code lacks: one that reads a VERSION above its own, in
the log or in a snapshot, ends before it. So an answer that is out of date by then costs a node that went back to old
code, or was added with it, and an observer, which nobody asks; no replica parts from the others.

Source: ours (ADR 190); PySyncObj's ``setCodeVersion``, etcd's cluster version, Kafka's ``metadata.version``.
"""

import asyncio
import logging
from typing import Any, Final

from pykraft.client.arguments import INT32_MAX, whole_number
from pykraft.client.node import Node
from pykraft.errors import NotAppliedError, PykraftError, UsageError
from pykraft.machine.applier import Applier
from pykraft.machine.forwarder import Forwarder
from pykraft.machine.own_records import voter_ids
from pykraft.machine.records import VersionRecord, encode_log_record

PAUSE_S_MIN: Final = 0.02
PAUSE_S_MAX: Final = 0.5
"""Between two rounds of questions; each pause is twice as long as the one before."""

logger = logging.getLogger("pykraft")


class CodeVersions:
    """The agreement, on one node."""

    def __init__(self, node: Node[bytes], applier: Applier[Any, Any], forwarder: Forwarder) -> None:
        """Errors: UsageError for a machine with an impossible version."""
        self._node = node
        self._applier = applier
        self._forwarder = forwarder
        self._known = applier.replica.machine.code_version
        whole_number("code_version", self._known, least=0, most=INT32_MAX)

    async def run(self) -> None:
        """Ask and write, while this node leads, until its own version is agreed on."""
        pause_s = PAUSE_S_MIN
        told: PykraftError | str | None = None
        while self._applier.replica.code_version < self._known:
            await asyncio.sleep(pause_s)
            pause_s = min(PAUSE_S_MAX, pause_s * 2)
            if not self._applier.clock.is_running:
                continue
            try:
                problem = await self._agree()
            except PykraftError as error:
                problem = str(error)
            if problem != told and pause_s == PAUSE_S_MAX:  # the others may only be starting
                logger.info("the nodes have not agreed on version %s of the code yet: %s", self._known, problem)
                told = problem

    async def wait(self, version: int, timeout_ms: int) -> None:
        """Wait until the nodes have agreed on this version, or a later one.

        Errors: UsageError for one that this node does not know; NotAppliedError when the time is over.
        """
        if version > self._known:
            text = f"version_of says {version}, and code_version is {self._known}"
            raise UsageError(f"{text}: increase code_version with each version that has new commands")
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._applier.versions[waiter] = version
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                await waiter
        except TimeoutError:
            agreed = self._applier.replica.code_version
            text = f"it needs version {version} of the code, and the nodes have agreed on {agreed} only"
            raise NotAppliedError(
                f"{text}, {timeout_ms} ms long: the command was not applied, and will not be"
            ) from None
        finally:
            self._applier.versions.pop(waiter, None)

    async def _agree(self) -> str:
        """Returns why there is no agreement yet. Errors: PykraftError."""
        voters = voter_ids(self._node)
        # 1. The answers.
        versions = {voter_id: await self._version_of(voter_id) for voter_id in voters}
        lowest = min(self._known, *versions.values())
        if lowest > self._applier.replica.code_version and voters == voter_ids(self._node):
            # 2. Nobody has been asked who is not among these.
            record = VersionRecord(self._applier.time_ms(), lowest)
            committed = await self._node.propose([encode_log_record(record)])
            # 3. Also on this node.
            await self._node.wait_applied(self._applier, committed.end_offset)
            logger.info("all voters know version %s of the code", lowest)
        late = ", ".join(
            f"node {voter_id} has {version}" for voter_id, version in versions.items() if version < self._known
        )
        return late or "the voters change"

    async def _version_of(self, voter_id: int) -> int:
        """Errors: PykraftError when it does not answer."""
        if voter_id == self._node.node_id:
            return self._known
        return int(await self._forwarder.confirm(voter_id, encode_log_record(VersionRecord(0, voter_id))))
