"""Waits until every node of a quorum under faults is a voter and has what was acknowledged.

Invariant: a leader says so, in its answer to DescribeQuorum; a node's own files say only who it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from pykraft.chaos.ground import Ground
from pykraft.client.remote.admin import Admin, AdminLimits
from pykraft.client.remote.quorum import Quorum
from pykraft.errors import PykraftError
from pykraft.local.cluster import Guest, PykraftNode
from pykraft.local.waiting import wait_until
from pykraft.log.small_files.meta import FILE_NAME, parse_meta
from pykraft.types import ReplicaKey

SERVE_TIMEOUT_S: Final = 60.0
LIMITS: Final = AdminLimits(timeout_ms=5_000, request_timeout_ms=2_000)


def wait_for_all(ground: Ground, require_life: Callable[[], None]) -> None:
    """Wait until every node is a voter and has all records acknowledged so far.

    Errors: LocalQuorumError at the timeout, and what ``require_life`` raises when a node has ended.
    """
    end_offset = ground.cluster.journal.end_offset

    def look() -> bool:
        require_life()
        quorum = _described(ground)
        if quorum is None:
            return False
        have = [voter.key for voter in quorum.voters if voter.log_end_offset >= end_offset]
        return all(_is_among(have, node, ground) for node in ground.cluster.replicas.values())

    wait_until(look, f"all voters to hold the log up to offset {end_offset}", timeout_s=SERVE_TIMEOUT_S)


def _described(ground: Ground) -> Quorum | None:
    async def ask() -> Quorum:
        async with Admin(ground.cluster.endpoints, limits=LIMITS) as admin:
            return await admin.describe_quorum()

    try:
        return asyncio.run(ask())
    except PykraftError:
        return None


def _is_among(voters: Sequence[ReplicaKey], node: PykraftNode | Guest, ground: Ground) -> bool:
    """Static voters are known by id; others also by the directory id in the node's directory."""
    if not ground.is_dynamic:
        return node.node_id in [voter.id for voter in voters]
    file = node.partition.parent / FILE_NAME
    meta = parse_meta(file, file.read_bytes())
    return (meta.node_id, meta.directory_id) in [(voter.id, voter.directory_id) for voter in voters]
