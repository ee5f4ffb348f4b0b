"""What is known of both nodes before the next step."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

NODE: Final = 1
PEERS: Final = (2, 3)
Look = dict[str, Any]


@dataclass(slots=True)
class Situation:
    """What both nodes look like, in numbers."""

    look: Look
    high_watermark: int = field(default=0)
    agreed: set[int] = field(default_factory=set)
    """Epochs whose leader has answered a Fetch without divergence: one that diverges afterwards contradicts itself."""
    heard: set[int] = field(default_factory=set)
    """Epochs whose leader has answered a Fetch since the node's last start."""
    left: set[int] = field(default_factory=set)
    """Epochs whose leader has said that it goes."""
    is_of_goodbyes: bool = field(default=False)
    """Whether leaders of this sequence leave often, which is rare by chance."""
    has_snapshots: bool = field(default=False)
    """Whether leaders of this sequence have snapshots instead of the log that is fetched."""
    is_cut_inside: bool = field(default=False)
    """The leader has just cut the log inside a batch: Kafka's file is then shorter than its memory says (ADR 023)."""

    @property
    def epoch(self) -> int:
        """The epoch."""
        return int(self.look["told"]["current_leader"]["leader_epoch"])

    @property
    def leader(self) -> int:
        """The leader that it knows, or -1."""
        return int(self.look["told"]["current_leader"]["leader_id"])

    @property
    def hears_leader(self) -> bool:
        """Whether it leads, or has fetched from the leader that it knows: ours yields to nobody's request then."""
        return self.leader == NODE or (self.leader in PEERS and self.epoch in self.heard)

    @property
    def log(self) -> Sequence[tuple[Any, ...]]:
        """Base offset, end offset and epoch of each batch, and what is in it."""
        found: Sequence[tuple[Any, ...]] = self.look["log"]
        return found

    @property
    def end(self) -> tuple[int, int]:
        """Epoch and end offset of the log."""
        if self.log:
            return self.log[-1][2], self.log[-1][1]
        # A log that a snapshot has replaced ends where the snapshot does.
        offset, _, epoch = (
            max(self.look.get("checkpoints", ()), default="0-0").removesuffix(".checkpoint").partition("-")
        )
        return int(epoch), int(offset)
