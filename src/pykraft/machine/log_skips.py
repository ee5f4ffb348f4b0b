"""The way out of a log with a command that no node can apply: the operator skips it, by a record in the log.

1. Nodes that are started with ``hold_at`` stop before that command. Their quorum elects a leader and commits as ever;
   only their machines stand still.
2. `skip` asks the leader, whose own machine stands there, to append a SKIP with that offset.
3. A machine that stands there reads the log ahead until it finds the SKIP, and passes over the command.
4. So does one that fails to read the command, at any later start: it looks for a SKIP in all that is committed by then,
   as far as a leader says so in time, and its node ends if there is none.

Invariant: all replicas skip the command, or none does. A replica that has applied it ends at the SKIP; a leader whose
machine does not stand at the command refuses to append one.

Source: ours (ADR 191).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from pykraft.client.leadership import LeaderAndEpoch
from pykraft.client.node import Node
from pykraft.client.reader import Reader
from pykraft.client.remote.admin import Admin
from pykraft.client.remote.connection import ClientDialer
from pykraft.errors import DeserializeError, ErrorCode, ForeignRecordError, PykraftError, RefusedError
from pykraft.machine.records import SkipRecord, decode_log_record, encode_log_record, pack_records
from pykraft.machine.replica import HeldError
from pykraft.protocol.messages import ApiKey
from pykraft.security.settings import IN_THE_CLEAR, Security
from pykraft.types import Offset

PAUSE_S: Final = 0.25
"""Between two questions for what is committed."""
SEARCH_S_MAX: Final = 10.0
"""How long a node that cannot read a command looks for a skip, if no leader says what is committed."""
TIMEOUT_MS: Final = 5_000
"""For the connection to the leader, and again for its answer."""

logger = logging.getLogger("pykraft")


class LogSkips:
    """A listener that reads the log ahead, while a machine stands before a command."""

    def __init__(self) -> None:
        self._offsets: set[int] = set()
        self._news = asyncio.Event()

    def handle_commit(self, reader: Reader[bytes]) -> None:
        """See `pykraft.client.Listener`."""
        for batch in reader:
            for value in batch.records:
                with suppress(ForeignRecordError):
                    record = decode_log_record(value)
                    if isinstance(record, SkipRecord):
                        self._offsets.add(record.offset)
        self._news.set()

    def handle_leader_change(self, leader_and_epoch: LeaderAndEpoch) -> None:
        """See `pykraft.client.Listener`: ignored."""
        del leader_and_epoch

    def has(self, offset: int) -> bool:
        """Whether the log has a SKIP with this offset, as far as it was read."""
        return offset in self._offsets

    async def wait(self, offset: int) -> None:
        """Wait for a SKIP with this offset."""
        while not self.has(offset):
            self._news.clear()
            await self._news.wait()


async def wait_skipped(node: Node[bytes], error: DeserializeError, committed: Callable[[], Awaitable[Offset]]) -> None:
    """Return when the log has a SKIP for the command that this error names; ``committed`` asks the leader for its end.

    Errors: the given one, if it is no HeldError and no SKIP is known to be committed by now.
    """
    skips = LogSkips()
    node.register(skips, error.offset)
    try:
        # 1. Only the operator ends it.
        if isinstance(error, HeldError):
            logger.error("the machine stands before offset %s: `pykraft machine skip` passes over it", error.offset)
            # 3. The SKIP is behind this record.
            await skips.wait(error.offset)
            return
        # 4. It may have been skipped long ago.
        logger.error("%s; the node ends if the log has no skip for it", error)
        reading = asyncio.ensure_future(_read_all(node, skips, committed))
        with suppress(TimeoutError):
            async with asyncio.timeout(SEARCH_S_MAX):
                found = asyncio.ensure_future(skips.wait(error.offset))
                try:
                    await asyncio.wait([found, reading], return_when=asyncio.FIRST_COMPLETED)
                finally:
                    found.cancel()
                    reading.cancel()
        if not skips.has(error.offset):
            raise error
    finally:
        node.unregister(skips)


async def _read_all(node: Node[bytes], skips: LogSkips, committed: Callable[[], Awaitable[Offset]]) -> None:
    """Return when all that is committed now was read ahead; without a leader nobody knows what that is."""
    end_offset: Offset | None = None
    while end_offset is None:
        try:
            end_offset = await committed()
        except PykraftError:
            await asyncio.sleep(PAUSE_S)
    await node.wait_applied(skips, end_offset)


async def skip(admin: Admin, offset: int, security: Security = IN_THE_CLEAR) -> int:
    """Let the leader append a SKIP for the command at this offset, before which its machine stands; returns its offset.

    Errors: RefusedError with the leader's reason; those of `Admin.describe_quorum`; UnreachableError.
    """
    found = await admin.describe_quorum()
    leader = next(voter for voter in found.voters if voter.key.id == found.leader_id)
    dialer = ClientDialer("pykraft-machine", security=security)
    connection = await dialer.connect(next(iter(leader.listeners))[1], TIMEOUT_MS)
    try:
        if not connection.offers_key(ApiKey.FORWARD):
            text = f"node {found.leader_id} leads, and runs no state machine"
            raise RefusedError("the skip", ErrorCode.UNSUPPORTED_VERSION, text)
        # 2. It refuses where its own machine does not stand there.
        body = {"cluster_id": found.cluster_id, "records": pack_records([encode_log_record(SkipRecord(0, offset))])}
        answer: dict[str, Any] = await connection.ask_body(ApiKey.FORWARD, body, timeout_ms=TIMEOUT_MS)
    finally:
        await connection.close()
    if answer["error_code"] != ErrorCode.NONE:
        raise RefusedError("the skip", answer["error_code"], answer["error_message"])
    return int(answer["offset"])
