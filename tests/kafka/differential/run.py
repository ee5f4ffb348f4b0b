"""Plays a sequence to both nodes and compares after each step.

A sequence is decided by its seed: the log that both begin with, and every step. After a step both nodes are looked at
until they look the same; they get some time for that, and what still differs then is a finding. At the end both are
killed, start with a short election timeout, and campaign. Kafka's node may end at a message at which ours only closes a
connection (ADR 002); then the sequence is over.

Invariant: a node of ours that ends is a finding, always.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from pykraft.errors import ProtocolError
from pykraft.local.child import Children
from pykraft.local.cluster import server_command
from pykraft.local.kafka.java import Kafka, Main
from pykraft.local.voters import PARTITION
from pykraft.log.paths import LOG, segment_file
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.records import encode_batch, encode_control_batch
from pykraft.types import Epoch, LeaderChange, NodeId, Offset, Uuid, uuid_text
from tests.kafka.differential.deviations import alike, plain
from tests.kafka.differential.steps import TIMESTAMP_MS, Answer, Request, Restart, Situation, Step, next_step
from tests.kafka.differential.world import LONG_MS, NODE, PAUSE, PEERS, SHORT_MS, Look, World

SETTLE_TIMEOUT_S: Final = 20.0
"""How long both may take until they look the same, on a busy machine too."""
STEP_LENGTH: Final = 700
STABLE_S: Final = 0.5
"""How long they must look the same: several times the back-off of an election, so that nothing is about to happen."""
LOOK_INTERVAL_S: Final = 0.03
DIRECTORY_ID: Final = Uuid(b"the node's own..")
LOAD: Final = ("--throughput", "1", "--record-size", "64", "--replica-directory-id", uuid_text(DIRECTORY_ID))


class KafkaEndedError(Exception):
    """Kafka's node ended; how it said so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The two differ."""

    seed: int
    number: int
    steps: Sequence[Step]
    differences: Sequence[str]

    def __str__(self) -> str:
        told = [f"seed {self.seed}, step {self.number}: Kafka and pykraft differ"]
        told += [f"  {line}" for line in self.differences]
        told += ["the last steps:", *(f"  {step}"[:STEP_LENGTH] for step in self.steps[-4:])]
        told += [f"again: python -m tests.kafka.differential --seeds {self.seed}:{self.seed + 1} --steps {self.number}"]
        return "\n".join(told)


def play(kafka: Kafka, folder: Path, *, seed: int, steps_count: int) -> Finding | None:
    """One sequence; what differed first. Errors: KafkaEndedError, when that is why it is over."""
    dice = Random(seed)
    with Children() as children:

        def of_kafka(config: Path) -> Sequence[str]:
            return kafka.command(Main.RAFT_NODE, ["--config", str(config), *LOAD], log_level="INFO")

        def of_ours(config: Path) -> Sequence[str]:
            return server_command(config, *LOAD)

        worlds = [
            World("Kafka", children, folder / "kafka", of_kafka),
            World("pykraft", children, folder / "pykraft", of_ours),
        ]
        try:
            disk = first_disk(dice)
            for world in worlds:
                write_disk(world, disk)
                world.start()
            for world in worlds:
                world.wait_until_serving()
            return _Player(worlds, dice, seed).play(steps_count)
        finally:
            for world in worlds:
                world.close()


class _Player:
    """Both nodes, and the sequence so far."""

    def __init__(self, worlds: Sequence[World], dice: Random, seed: int) -> None:
        self._worlds = worlds
        self._dice = dice
        self._seed = seed
        self._steps: list[Step] = []
        self._pool = ThreadPoolExecutor(len(worlds))

    def play(self, steps_count: int) -> Finding | None:
        now = Situation({})
        differences: Sequence[str] = ()
        for number in range(steps_count + 2):
            looks, differences = self._settled()
            if differences:
                return self._finding(differences)
            now.look = looks
            now.high_watermark = max(now.high_watermark, looks["told"]["high_watermark"])
            if number == steps_count + 1:
                return None
            step = next_step(self._dice, now) if number < steps_count else Restart(is_kill=True, expires=True)
            self._steps.append(step)
            outcomes = list(self._pool.map(lambda world, step=step: self._apply(world, step), self._worlds))
            self._check_kafka()
            differences = alike(*(plain(outcome) for outcome in outcomes))
            if differences:
                return self._finding([f"its answer: {each}" for each in differences])
            _follow(now, step)
        return None

    def _finding(self, differences: Sequence[str]) -> Finding:
        return Finding(seed=self._seed, number=len(self._steps), steps=self._steps, differences=differences)

    def _apply(self, world: World, step: Step) -> Any:
        match step:
            case Request():
                try:
                    return world.ask(step.api_key, step.version, step.body)
                except (OSError, ProtocolError) as error:
                    return type(error).__name__ if isinstance(error, TimeoutError) else "closed"
            case Answer():
                world.answer(step.peer, step.api_key, step.body)
            case Restart():
                world.end(is_kill=step.is_kill)
                world.start(election_timeout_ms=SHORT_MS if step.expires else LONG_MS)
                world.wait_until_serving()
        return None

    def _settled(self) -> tuple[Look, Sequence[str]]:
        """What both look like, as soon as it stays the same; or what differs when time is over."""
        deadline = time.monotonic() + SETTLE_TIMEOUT_S
        same: Look | None = None
        since_s = 0.0
        while True:
            try:
                one, other = self._pool.map(lambda world: world.look(), self._worlds)
            except (OSError, ProtocolError) as error:
                self._check_kafka()
                ours = self._worlds[1]
                if time.monotonic() > deadline or ours.status is not None:
                    return {}, [f"{error!r}; pykraft ended with {ours.status}: {ours.log()[-1_000:]}"]
                PAUSE.wait(LOOK_INTERVAL_S)
                continue
            differences = alike(plain(one), plain(other))
            if not differences and same == plain(one) and time.monotonic() - since_s >= STABLE_S:
                both = [look["fetches from the leader"] for look in (one, other)]
                return {**one, "fetches from the leader": all(both)}, ()
            if differences or same != plain(one):
                same, since_s = None if differences else plain(one), time.monotonic()
            if time.monotonic() > deadline:
                return one, differences or ["they go on changing"]
            PAUSE.wait(LOOK_INTERVAL_S)

    def _check_kafka(self) -> None:
        kafka = self._worlds[0]
        ends = "fatal" in kafka.log() and kafka.status is None
        for _ in range(40 if ends else 0):
            if kafka.status is None:
                PAUSE.wait(0.1)
        if kafka.status is not None:
            lines = [line for line in kafka.log().splitlines() if "Exception" in line or "ERROR" in line]
            told = [line[:300] for line in (f"seed {self._seed}, step {len(self._steps)}", *lines[-2:])]
            last = str(self._steps[-1])[:STEP_LENGTH] if self._steps else ""
            raise KafkaEndedError("\n  ".join([*told, last]))


def _follow(now: Situation, step: Step) -> None:
    """What the node has been told: the high watermark, and which leaders have agreed with its log."""
    if isinstance(step, Request) and step.api_key == ApiKey.END_QUORUM_EPOCH:
        now.left.add(step.body["topics"][0]["partitions"][0]["leader_epoch"])
    if isinstance(step, Answer) and "responses" in step.body:
        told = step.body["responses"][0]["partitions"][0]
        now.high_watermark = max(now.high_watermark, told["high_watermark"])
        if told["error_code"] == 0 and "diverging_epoch" not in told:
            now.agreed.add(now.epoch)


def first_disk(dice: Random) -> dict[str, bytes]:
    """Files of a voter that has been in a quorum: a log of one or two epochs, and that it voted for nobody since."""
    change = LeaderChange(leader_id=NodeId(2), voters=tuple(map(NodeId, (NODE, *PEERS))), granting_voters=(NodeId(2),))
    parts = [encode_control_batch([change], base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=TIMESTAMP_MS)]
    offset, epoch = 1, 1
    for _ in range(dice.randint(0, 4)):
        values = [dice.randbytes(5) for _ in range(dice.randint(1, 5))]
        epoch += dice.choice((0, 0, 1))
        parts.append(encode_batch(values, base_offset=Offset(offset), epoch=Epoch(epoch), timestamp_ms=TIMESTAMP_MS))
        offset += len(values)
    state = {
        "clusterId": "",
        "leaderId": -1,
        "leaderEpoch": epoch,
        "votedId": -1,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": node} for node in (NODE, *PEERS)],
        "data_version": 0,
    }
    return {
        segment_file(Offset(0), LOG): b"".join(parts),
        "quorum-state": json.dumps(state, separators=(",", ":")).encode(),
    }


def write_disk(world: World, disk: dict[str, bytes]) -> None:
    """Give a node its first files."""
    folder = world.home / "data" / PARTITION
    folder.mkdir(parents=True)
    for name, data in disk.items():
        (folder / name).write_bytes(data)
