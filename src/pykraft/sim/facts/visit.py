"""A client's question to one process, and the answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.sim.machine.node import Process


class VisitQuestion(Enum):
    """The request that the client sends: its API, and its version."""

    DESCRIBE_QUORUM = (ApiKey.DESCRIBE_QUORUM, 2)
    DESCRIBE_CLUSTER = (ApiKey.DESCRIBE_CLUSTER, 1)
    DESCRIBE_BROKERS = (ApiKey.DESCRIBE_CLUSTER, 1, "brokers")
    ADD_IMPOSSIBLE_VOTER = (ApiKey.ADD_RAFT_VOTER, 1)
    FETCH_COMMITTED = (ApiKey.FETCH, 18)

    @property
    def api_key(self) -> ApiKey:
        """Of the request."""
        return ApiKey(self.value[0])

    @property
    def version(self) -> int:
        """Of the request."""
        return int(self.value[1])


@dataclass(slots=True, kw_only=True, eq=False)
class Visit:
    """One question to one process; ``answer`` is the response body, None until it comes."""

    question: VisitQuestion
    process: Process
    asked_us: int
    answer: Body | None = None
    is_refused: bool = False
    """True when the process closed the connection instead of an answer."""

    @property
    def is_open(self) -> bool:
        """True while an answer may still come."""
        return self.answer is None and not self.is_refused and self.process.is_running
