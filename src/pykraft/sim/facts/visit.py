"""A client's question to one process, and the answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.sim.machine.node import Process


class VisitQuestion(Enum):
    """The request that the client sends."""

    DESCRIBE_QUORUM = ApiKey.DESCRIBE_QUORUM
    DESCRIBE_CLUSTER = ApiKey.DESCRIBE_CLUSTER
    ADD_IMPOSSIBLE_VOTER = ApiKey.ADD_RAFT_VOTER
    FETCH_COMMITTED = ApiKey.FETCH


@dataclass(slots=True, kw_only=True, eq=False)
class Visit:
    """One question to one process; ``answer`` is the response body, None until it comes."""

    question: VisitQuestion
    process: Process
    asked_us: int
    answer: Body | None = None

    @property
    def is_open(self) -> bool:
        """True while an answer may still come."""
        return self.answer is None and self.process.is_running
