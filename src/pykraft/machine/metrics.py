"""What a node measures of its state machine: commands of its callers, and how they end.

Invariant: recording costs an append per command; what ended in one turn of the loop is recorded together. Values are
gathered on the program's loop, and published to the node whole, so that a scrape on another thread reads no half of
them.

Source: ours; the sensors are those of `pykraft.host.metrics`.
"""

import asyncio
from typing import Any, Final

from pykraft.client.node import Node
from pykraft.errors import OutcomeUnknownError, PykraftError
from pykraft.host.metrics import Metric, MetricKind, Metrics, Sensor, ours
from pykraft.machine.replica import APPLIED, REFUSED, CommandAnswer, MachineReplica
from pykraft.machine.submission import Submission

_COMMANDS: Final = ours("machine-commands-rate", MetricKind.SENSOR, "commands/s", "commands of this node's callers")
_AVERAGE: Final = ours("machine-command-latency-avg", MetricKind.SENSOR, "ms", "time from a call to its answer")
_LONGEST: Final = ours("machine-command-latency-max", MetricKind.SENSOR, "ms", "the longest machine-command-latency")
_REJECTED: Final = ours("machine-rejected-total", MetricKind.COUNTER, "commands", "commands that apply rejected")
_UNKNOWN: Final = ours("machine-unknown-total", MetricKind.COUNTER, "commands", "commands whose outcome is unknown")
_FAILED: Final = ours(
    "machine-failed-total", MetricKind.COUNTER, "commands", "commands that were not applied, such as without a leader"
)
_WAITING: Final = ours("machine-waiting-calls", MetricKind.GAUGE, "calls", "callers that wait for an answer")
_SESSIONS: Final = ours("machine-sessions", MetricKind.GAUGE, "sessions", "sessions in the log, of all nodes")
MACHINE_METRICS: Final = (_COMMANDS, _AVERAGE, _LONGEST, _REJECTED, _UNKNOWN, _FAILED, _WAITING, _SESSIONS)
"""All of them, in the order of the documentation."""

PUBLISH_INTERVAL_S: Final = 1.0


class CommandMeasurements:
    """The commands of one node's callers."""

    def __init__(self, node: Node[bytes], replica: MachineReplica[Any, Any], submission: Submission[Any, Any]) -> None:
        self._node = node
        self._replica = replica
        self._submission = submission
        self._latency = Sensor()
        self._begun_s: list[float] = []
        """When the calls began that ended in this turn of the loop."""
        self._rejected = self._unknown = self._failed = 0

    def answered(self, begun_s: float, answer: CommandAnswer) -> None:
        """The call that began then (seconds of the loop) has this answer."""
        if answer.verdict is not APPLIED:
            self._failed += answer.verdict is REFUSED
            self._rejected += answer.verdict is not REFUSED
        self._ended(begun_s)

    def failed(self, begun_s: float, error: BaseException) -> None:
        """The call that began then has ended with this error, or was cancelled."""
        if isinstance(error, OutcomeUnknownError):
            self._unknown += 1
        elif isinstance(error, PykraftError):
            self._failed += 1
        self._ended(begun_s)

    def _ended(self, begun_s: float) -> None:
        if not self._begun_s:
            asyncio.get_running_loop().call_soon(self._record)
        self._begun_s.append(begun_s)

    def _record(self) -> None:
        now_s, begun_s = asyncio.get_running_loop().time(), self._begun_s
        if not begun_s:
            return
        self._begun_s = []
        latency_s = len(begun_s) * now_s - sum(begun_s)
        self._latency.record_all(len(begun_s), latency_s * 1_000, (now_s - min(begun_s)) * 1_000, now_s * 1_000)

    async def read(self) -> Metrics:
        """With those of the node, and of the state machine. Errors: NotRunningError."""
        own = {metric.name: value for metric, value in self._own().items()}
        return {**await self._node.metrics(), **own}

    async def publish(self) -> None:
        """Keep what a scrape gets, until cancelled: the node's loop may be another one, so it cannot look itself."""
        while True:
            self._node.publish_metrics(self._own())
            await asyncio.sleep(PUBLISH_INTERVAL_S)

    def _own(self) -> dict[Metric, float]:
        self._record()
        now_ms = asyncio.get_running_loop().time() * 1_000
        return {
            _COMMANDS: self._latency.count_per_s(now_ms),
            _AVERAGE: self._latency.average(now_ms),
            _LONGEST: self._latency.maximum(now_ms),
            _REJECTED: self._rejected,
            _UNKNOWN: self._unknown,
            _FAILED: self._failed,
            _WAITING: self._submission.waiting_count,
            _SESSIONS: self._replica.sessions_count,
            **self._replica.machine.metrics(),
        }
