"""Nodes that run an older release for a while: they speak Kafka 3.8's or 3.9's versions and know no pre-votes.

The node is killed, comes back as another release, and later returns to the present one in the same way: a rolling
upgrade, or its reversal.

Source: KIP-996 (Vote version 2), KIP-853 (version 1 of the quorum's requests), KIP-595 (version 0).
"""

from __future__ import annotations

from pykraft.sim.faults.harm import Act, Harm
from pykraft.sim.machine.dialect import KAFKA_3_8, KAFKA_3_9


class VersionFaults:
    """The one kind of this family."""

    def __init__(self, harm: Harm) -> None:
        self._harm = harm
        self.kinds: dict[str, Act] = {"old version": self._exchange}

    def stop(self) -> None:
        """Do nothing: a cluster with mixed releases must heal, too."""

    def _exchange(self) -> bool:
        node, facts = self._harm.any_node(), self._harm.facts
        if not facts.is_formatted and not facts.members.is_dynamic and not facts.committed.end_offset:
            return False  # a release without pre-votes proves nobody (ADR 022): its operator formats all directories
        facts.members.has_pre_votes = False
        if node.dialect is None:
            node.dialect = self._harm.rng.choice((KAFKA_3_8, KAFKA_3_9))
            if self._harm.facts.members.may_change:
                node.dialect = KAFKA_3_9  # the first release that can have voters in the log
            self._harm.hit("old version", node, f"is replaced by a program that speaks like {node.dialect.name}")
        else:
            self._harm.note(node, "is upgraded")
            node.dialect = None
        if node.process is not None:
            node.kill()
        return True
