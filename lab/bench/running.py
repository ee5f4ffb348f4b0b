"""The part that quorums of both kinds share: high watermark, resource usage, and whether the processes live.

Invariant: the same code measures both kinds of quorum.
"""

from __future__ import annotations

from collections.abc import Mapping

from lab.bench.contender import Usage, Watermark
from lab.bench.probe import Probe
from lab.bench.usage import usage_of
from lab.kafka.peer import JavaNode
from pykraft.errors import LocalQuorumError
from pykraft.local.child import Child
from pykraft.local.cluster import PykraftNode
from pykraft.local.waiting import wait_until

LEADER_TIMEOUT_S = 60.0
LAST_WORDS_SIZE_MAX = 300
"""Characters of a log that an error quotes."""


class Running:
    """The nodes of a quorum by id, and the ports that they serve; see `lab.bench.contender.LoadedQuorum`."""

    def __init__(self, nodes: Mapping[int, PykraftNode | JavaNode], ports: Mapping[int, int]) -> None:
        self._nodes = nodes
        self._probe = Probe(ports)

    def start(self) -> None:
        """See `LoadedQuorum`."""
        for node in self._nodes.values():
            node.start()

    def watermark(self) -> Watermark:
        """Wait for the leader's answer. Errors: LocalQuorumError."""
        return wait_until(self._ask, "a leader's high watermark", timeout_s=LEADER_TIMEOUT_S)

    def usage(self) -> Mapping[int, Usage]:
        """Errors: LocalQuorumError."""
        return {node_id: usage_of(node.process.pid, node.process.name) for node_id, node in self._nodes.items()}

    def failure(self) -> str | None:
        """Which nodes have ended, with the end of the first one's log; None if all live."""
        ended = [node.process for node in self._nodes.values() if node.process.status is not None]
        if not ended:
            return None
        return ", ".join(f"{child.name} ended with {child.status}" for child in ended) + _last_words(ended[0])

    def batch_size_bytes(self) -> float | None:
        """See `LoadedQuorum`: unknown, unless a journal tells."""
        return None

    def close(self) -> None:
        """Close the connection."""
        self._probe.close()

    def _ask(self) -> Watermark | None:
        ended = self.failure()
        if ended is not None:
            raise LocalQuorumError(ended)
        return self._probe.ask()


def _last_words(child: Child) -> str:
    lines = child.log().split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    return f": {last.strip()[:LAST_WORDS_SIZE_MAX]}" if last else ""
