"""How many file descriptors of the process clients may use.

This module divides descriptors between clients and everything else: a node's log and peers, other nodes, and the
application around them. Invariant: however many clients connect, descriptors are left for the next segment, because a
node that cannot open it ends. The system assigns the lowest free number, so the number of a new connection tells how
many are in use in the whole process.

Source: POSIX §2.14 (the lowest available descriptor), ``RLIMIT_NOFILE``; Kafka's ``max.connections`` leaves this to the
operator.
"""

from __future__ import annotations

import resource
from typing import Final

from pykraft.errors import UsageError
from pykraft.text.words import counted

ACCEPTED_MAX: Final = 1_000
"""Most client connections at a time."""
OWN_DESCRIPTORS: Final = 200
"""Descriptors kept for files, listening sockets and peers; clients share the others."""

UNLIMITED: Final = 2**31 - 1


def accepted_max() -> int:
    """Most clients of a process that runs only a node; raises the soft limit of descriptors as far as needed.

    Errors: UsageError when there are too few descriptors even for the node itself.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ACCEPTED_MAX + OWN_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    most = wanted if soft == resource.RLIM_INFINITY else min(wanted, soft)
    if most <= OWN_DESCRIPTORS:
        raise UsageError(
            f"the process may open only {counted(most, 'file')}; ulimit -n must be more than {OWN_DESCRIPTORS}"
        )
    return most - OWN_DESCRIPTORS


def descriptor_max() -> int:
    """Largest descriptor number that a client's connection may have; this leaves the application's limit unchanged."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return UNLIMITED
    return soft - 1 - min(OWN_DESCRIPTORS, soft // 2)
