"""Waits until every node of a quorum under faults has what was acknowledged, in the eyes of the leader.

Invariant: a leader says so, in its answer to DescribeQuorum; a node's own files say only who it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from lab.chaos.ground import Ground
from pykraft.client.remote.admin import Admin, AdminLimits
from pykraft.client.remote.quorum import Quorum
from pykraft.errors import PykraftError
from pykraft.local.cluster import Guest, PykraftNode
from pykraft.local.waiting import wait_until
from pykraft.log.small_files.meta import FILE_NAME, parse_meta

SERVE_TIMEOUT_S: Final = 60.0
LIMITS: Final = AdminLimits(timeout_ms=5_000, request_timeout_ms=2_000)


def wait_for_all(ground: Ground, require_life: Callable[[], None]) -> None:
    """Wait until every node has all records acknowledged so far, as a voter or as one from the next epoch on.

    Errors: LocalQuorumError at the timeout, and what ``require_life`` raises when a node has ended.
    """
    end_offset = ground.cluster.journal.end_offset

    def look() -> bool:
        require_life()
        quorum = _described(ground)
        if quorum is None:
            return False
        return all(_has_all(quorum, end_offset, node, ground) for node in ground.cluster.replicas.values())

    wait_until(look, f"all voters to hold the log up to offset {end_offset}", timeout_s=SERVE_TIMEOUT_S)


def _described(ground: Ground) -> Quorum | None:
    async def ask() -> Quorum:
        async with Admin(ground.cluster.endpoints, limits=LIMITS) as admin:
            return await admin.describe_quorum()

    try:
        return asyncio.run(ask())
    except PykraftError:
        return None


def _has_all(quorum: Quorum, end_offset: int, node: PykraftNode | Guest, ground: Ground) -> bool:
    """Dynamic voters are known by id and by the directory id in the node's directory, static ones by id.

    A static voter with a new directory counts from the next epoch on (ADR 130), and observes until then.
    """
    having = [voter.key for voter in quorum.voters if voter.log_end_offset >= end_offset]
    if not ground.is_dynamic:
        if node.node_id in [key.id for key in having]:
            return True
        having = [observer.key for observer in quorum.observers if observer.log_end_offset >= end_offset]
    file = node.partition.parent / FILE_NAME
    if not file.exists():  # its directory was just emptied
        return False
    meta = parse_meta(file, file.read_bytes())
    return (meta.node_id, meta.directory_id) in [(key.id, key.directory_id) for key in having]
