"""The part that quorums of both kinds share: high watermark, resource usage, and whether the processes live.

Invariant: the same code measures both kinds of quorum.
"""

from __future__ import annotations

from collections.abc import Mapping

from pykraft.bench.contender import Usage, Watermark
from pykraft.bench.probe import Probe
from pykraft.bench.usage import usage_of
from pykraft.errors import LocalQuorumError
from pykraft.local.child import Child
from pykraft.local.waiting import wait_until

LEADER_TIMEOUT_S = 60.0
LAST_WORDS_SIZE_MAX = 300
"""Characters of a log that an error quotes."""


class Running:
    """Started nodes by id, and the ports that they serve."""

    def __init__(self, ports: Mapping[int, int], processes: Mapping[int, Child]) -> None:
        self._probe = Probe(ports)
        self._processes = processes

    def watermark(self) -> Watermark:
        """Wait for the leader's answer. Errors: LocalQuorumError."""
        return wait_until(self._ask, "a leader's high watermark", timeout_s=LEADER_TIMEOUT_S)

    def usage(self) -> Mapping[int, Usage]:
        """Errors: LocalQuorumError."""
        return {node_id: usage_of(child.pid, child.name) for node_id, child in self._processes.items()}

    def ended(self) -> str | None:
        """Which nodes have ended, with the end of the first one's log; None if all live."""
        ended = [child for child in self._processes.values() if child.status is not None]
        if not ended:
            return None
        return ", ".join(f"{child.name} ended with {child.status}" for child in ended) + _last_words(ended[0])

    def close(self) -> None:
        """Close the connection."""
        self._probe.close()

    def _ask(self) -> Watermark | None:
        ended = self.ended()
        if ended is not None:
            raise LocalQuorumError(ended)
        return self._probe.ask()


def _last_words(child: Child) -> str:
    lines = child.log().split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    return f": {last.strip()[:LAST_WORDS_SIZE_MAX]}" if last else ""
