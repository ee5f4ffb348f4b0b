"""Samples a live quorum several times per second from outside: its leader, and the position of each replica.

It runs one thread with an event loop. Invariant: a sample without an answer counts as one without a leader, not as an
error; so a gap in the leadership shows. Memory is bounded: when the list is full, every second sample is dropped and
the interval is doubled, so that a long run is covered as a whole, at a coarser resolution.

Source: KIP-595 §DescribeQuorum, KIP-836 (times of replicas).
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Final, Self

from pykraft.client.remote.admin import Admin
from pykraft.client.remote.leader_search import Patience
from pykraft.client.remote.quorum import Quorum
from pykraft.errors import PykraftError
from pykraft.types import Endpoint

INTERVAL_S: Final = 0.2
SAMPLES_MAX: Final = 10_000
ANSWER_LIMITS: Final = Patience(timeout_ms=250, request_timeout_ms=250, retry_backoff_ms=25)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSample:
    """One replica as its leader reports it; -1 for unknown. ``lag`` is in records, the time in the leader's wall ms."""

    log_end_offset: int
    lag: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumSample:
    """One sample: when it was answered or given up (wall ms), and the answer; ``leader_id`` is None without one.

    ``high_watermark`` is None until the leader knows it. ``replicas`` is by node id, without observers.
    """

    wall_ms: int
    leader_id: int | None = None
    epoch: int | None = None
    high_watermark: int | None = None
    replicas: Mapping[int, ReplicaSample] = field(default_factory=dict)


class Sampler:
    """Starts sampling when it is created; use it in ``with``, or call `stop`."""

    def __init__(
        self, bootstrap: Sequence[Endpoint], *, interval_s: float = INTERVAL_S, samples_max: int = SAMPLES_MAX
    ) -> None:
        """``bootstrap`` are all known nodes of the quorum. Errors: UsageError if there is none."""
        self._admin = Admin(bootstrap, client_id="pykraft-sampler", patience=ANSWER_LIMITS)
        self._interval_s = interval_s
        self._samples_max = samples_max
        self._samples: list[QuorumSample] = []
        self._is_stopped = Event()
        self._end: Future[None] = Future()
        self._thread = Thread(target=self._main, name="quorum-sampler", daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def samples(self) -> tuple[QuorumSample, ...]:
        """The samples so far, in order of time."""
        return tuple(self._samples)

    def stop(self) -> tuple[QuorumSample, ...]:
        """Stop within a second; returns all samples. A second call has no effect."""
        self._is_stopped.set()
        self._thread.join()
        self._end.result()
        return self.samples()

    def _main(self) -> None:
        try:
            with asyncio.Runner() as runner:
                pause_s = 0.0
                while not self._is_stopped.wait(pause_s):
                    begun_s = time.monotonic()
                    self._keep(runner.run(self._sample()))
                    pause_s = max(0.0, begun_s + self._interval_s - time.monotonic())
                runner.run(self._admin.close())
            self._end.set_result(None)
        except BaseException as error:  # noqa: BLE001 - told where the sampler is stopped
            self._end.set_exception(error)

    async def _sample(self) -> QuorumSample:
        try:
            quorum = await self._admin.describe_quorum()
        except PykraftError:
            return QuorumSample(wall_ms=time.time_ns() // 1_000_000)
        return sample_of(quorum, wall_ms=time.time_ns() // 1_000_000)

    def _keep(self, sample: QuorumSample) -> None:
        if len(self._samples) >= self._samples_max:
            self._samples = self._samples[::2]
            self._interval_s *= 2
        self._samples.append(sample)


def sample_of(quorum: Quorum, *, wall_ms: int) -> QuorumSample:
    return QuorumSample(
        wall_ms=wall_ms,
        leader_id=int(quorum.leader_id),
        epoch=int(quorum.epoch),
        high_watermark=quorum.high_watermark,
        replicas={
            int(voter.key.id): ReplicaSample(
                log_end_offset=voter.log_end_offset,
                lag=quorum.lag(voter) if voter.log_end_offset >= 0 else -1,
                last_caught_up_ms=voter.last_caught_up_ms,
            )
            for voter in quorum.voters
        },
    )
