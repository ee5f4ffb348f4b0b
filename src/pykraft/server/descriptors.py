"""How many descriptors of a process clients may have, whatever else runs in it.

Owns the share between clients and everything else: a node's log and peers, other nodes, and the application around
them. Invariant: however many clients connect, there are descriptors left for the next segment; a node that cannot open
it ends. The system gives out the lowest free number, so the number of a new connection says how many are in use in the
whole process. It refuses to know connections.

Source: POSIX §2.14 (the lowest available descriptor), ``RLIMIT_NOFILE``; Kafka's ``max.connections`` leaves this to the
operator.
"""

from __future__ import annotations

import resource
from typing import Final

from pykraft.errors import UsageError

ACCEPTED_MAX: Final = 1_000
"""Connections that clients may hold at one time."""
OWN_DESCRIPTORS: Final = 200
"""Descriptors kept for files, listening sockets and peers; clients share the others."""

UNLIMITED: Final = 2**31 - 1


def accepted_max() -> int:
    """How many clients a process that is a node alone has descriptors for; asks the system for as many as it may have.

    Errors: UsageError when there are too few for a node alone.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ACCEPTED_MAX + OWN_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    most = wanted if soft == resource.RLIM_INFINITY else min(wanted, soft)
    if most <= OWN_DESCRIPTORS:
        raise UsageError(f"the process may open {most} files only; ulimit -n must be more than {OWN_DESCRIPTORS}")
    return most - OWN_DESCRIPTORS


def descriptor_max() -> int:
    """The largest number that a client's connection may have; an application's limit is left as it is."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return UNLIMITED
    return soft - 1 - min(OWN_DESCRIPTORS, soft // 2)
