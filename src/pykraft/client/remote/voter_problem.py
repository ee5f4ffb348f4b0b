"""What a voter says of itself when a client asks it beside the leader.

A leader does not know that a follower cannot vote, and learns late that one has died; the voter itself, or its machine,
tells both at once. Invariant: asking changes nothing, and takes at most VOTER_TIMEOUT_MS.

Source: ours (ADR 024).
"""

from __future__ import annotations

from typing import Final

from pykraft.client.remote.connection import Connection
from pykraft.client.remote.no_leader import cluster_at, own_words
from pykraft.client.remote.quorum import VoterProblem
from pykraft.errors import UnreachableError

VOTER_TIMEOUT_MS: Final = 1_000
"""For the connection, and again for the answer; all voters are asked at the same time."""


async def own_problem_at(connection: Connection, *, timeout_ms: int) -> VoterProblem | None:
    """What this voter says of itself; None when nothing is wrong, or when it is not a pykraft node.

    Errors: UnreachableError.
    """
    answer = await cluster_at(connection, timeout_ms=timeout_ms)
    text = None if answer is None else own_words(answer)
    return None if text is None else VoterProblem(text=text, is_own=True)


def problem_with(error: UnreachableError) -> VoterProblem:
    """The problem with a voter that could not be asked."""
    return VoterProblem(text=str(error), is_refused=isinstance(error.__cause__, ConnectionRefusedError))
