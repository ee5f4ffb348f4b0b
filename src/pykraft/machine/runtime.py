"""What a replicated state machine gets from outside: its node, connections, random bytes and session times.

A program never passes one; `pykraft.machine.testing` does, so that the same code runs in simulated worlds. Invariant:
all replicas of a state machine have the same session timeout, since it is part of the log's format.

Source: ours.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

from pykraft.client.node import Node
from pykraft.client.remote.connection import Connection
from pykraft.config import NodeConfig
from pykraft.machine.replica import SESSION_TIMEOUT_MS, NotApplied
from pykraft.types import Endpoint

logger = logging.getLogger("pykraft")


ConnectForward: TypeAlias = Callable[[Endpoint, int], Awaitable[Connection]]
"""Connects to an endpoint within a timeout in ms. Errors: UnreachableError."""


def program_node(config: NodeConfig, own_thread: bool) -> Node[bytes]:  # noqa: FBT001 - called by position only
    """The node of a program. Errors: UsageError for an invalid configuration."""
    return Node(config, own_thread=own_thread)


def report_not_applied(what: NotApplied) -> None:
    """Log what all replicas pass over: the operator should know."""
    problem = "the operator skips it" if what.error is None else f"{type(what.error).__name__}: {what.error}"
    logger.error("the record at offset %s (epoch %s) is not applied: %s", what.offset, what.epoch, problem)
    logger.debug("where it failed", exc_info=what.error)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRuntime:
    """The defaults are those of a program."""

    make_node: Callable[[NodeConfig, bool], Node[bytes]] = program_node
    """Makes the node; the second argument says whether it has a thread of its own."""
    connect: ConnectForward | None = None
    """Connects to other nodes; None: by TCP."""
    random_bytes: Callable[[int], bytes] = secrets.token_bytes
    """Returns so many bytes that nobody has drawn before."""
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    """Log time after which an unused session ends."""
    on_not_applied: Callable[[NotApplied], object] = report_not_applied
    """Called for what all replicas pass over."""


PROGRAM: Final = MachineRuntime()
