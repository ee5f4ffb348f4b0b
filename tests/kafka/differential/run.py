"""Plays a sequence to both nodes and compares after each step.

A seed decides a sequence: the log that both begin with, and every step. After a step the player looks at both nodes
until they look the same; what still differs after a minute is a finding. At the end it kills both, starts them with a
short election timeout, and they campaign. Kafka's node may end at a message at which ours only closes a connection
(ADR 002); then the sequence is over. A sequence can also be played again from its steps, so that it can be shortened.

Invariant: a node of ours that ends is a finding, always.
"""

import json
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

from lab.kafka.java import SMALL_JVM, Kafka, Main
from pykraft.errors import ProtocolError
from pykraft.local.child import Children
from pykraft.local.voters import PARTITION, SOURCES, server_command
from pykraft.log.paths import LOG, segment_file
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.records import encode_batch, encode_control_batch
from pykraft.types import Epoch, LeaderChange, NodeId, Offset, Uuid, uuid_text
from tests.kafka.archive import ArchivedKafka
from tests.kafka.differential.deviations import alike, plain
from tests.kafka.differential.situation import NODE, PEERS, Look, Situation
from tests.kafka.differential.steps import TIMESTAMP_MS, Answer, Request, Restart, Step, next_step
from tests.kafka.differential.world import BACKOFF_MS, LONG_MS, PAUSE, SHORT_MS, World

SETTLE_TIMEOUT_S: Final = 60.0
"""How long both may take until they look the same, on a busy machine too; less where a finding is only repeated."""
STEP_LENGTH: Final = 700
STABLE_S: Final = 0.5
"""How long they must look the same: several times the back-off of an election, so that nothing is about to happen."""
QUIET_S: Final = 0.15
"""How long is enough where both already wait for the answer to a Fetch that they sent since the step."""
SAME: Final = "fetches from the leader"
LOOK_INTERVAL_S: Final = 0.03
LAST: Final = Restart(is_kill=True, expires=True)
"""The end of a sequence."""
DIRECTORY_ID: Final = Uuid(b"the node's own..")
LOAD: Final = ("--throughput", "1", "--record-size", "64", "--replica-directory-id", uuid_text(DIRECTORY_ID))


class KafkaEndedError(Exception):
    """Kafka's node ended; how it said so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The two differ."""

    seed: int
    number: int
    """Of the step in the whole sequence of the seed."""
    steps: Sequence[Step]
    """All that were played; fewer than ``number`` once the sequence is shortened."""
    differences: Sequence[str]
    looks: Sequence[Any] = ()
    """What Kafka and pykraft looked like."""

    def __str__(self) -> str:
        told = [f"seed {self.seed}, step {self.number}: Kafka and pykraft differ"]
        told += [f"  {line}" for line in self.differences]
        told += ["Kafka and pykraft, in full:", *(f"  {look}" for look in self.looks)]
        told += [f"the shortest sequence found, {len(self.steps)} steps:"]
        told += [f"  {number} {step}"[:STEP_LENGTH] for number, step in enumerate(self.steps, start=1)]
        told += [f"again: python -m tests.kafka.differential --seeds {self.seed}:{self.seed + 1} --steps {self.number}"]
        return "\n".join(told)

    @property
    def places(self) -> frozenset[str]:
        """Where they differ, without the values."""
        return frozenset(line.partition(": Kafka ")[0] for line in self.differences)


def play(
    kafka: Kafka,
    folder: Path,
    *,
    seed: int,
    steps_count: int,
    steps: Sequence[Step] | None = None,
    sources: Path = SOURCES,
    settle_timeout_s: float = SETTLE_TIMEOUT_S,
    jvm: Sequence[str] = SMALL_JVM,
) -> Finding | None:
    """One sequence; what differed first. ``steps`` are played instead of those that the seed makes.

    Errors: KafkaEndedError, when that is why it is over.
    """
    dice = Random(seed)
    # Who waits for a back-off and who does not differs only where it is long; a short one lets campaigns go on.
    backoff_ms = LONG_MS if seed % 2 else BACKOFF_MS
    with Children() as children:

        def of_kafka(config: Path) -> Sequence[str]:
            return kafka_command(kafka, config, jvm)

        def of_ours(config: Path) -> Sequence[str]:
            return server_command(config, *LOAD)

        worlds = [
            World("Kafka", children, folder / "kafka", of_kafka, backoff_ms=backoff_ms, trusts_file=True),
            World("pykraft", children, folder / "pykraft", of_ours, backoff_ms=backoff_ms, sources=sources),
        ]
        player = _Player(worlds, situation_of(seed), seed, settle_timeout_s)
        try:
            disk = first_disk(dice)
            for world in worlds:
                write_disk(world, disk)
                world.start()
            for world in worlds:
                world.wait_until_serving()
            if steps is not None:
                recorded = iter(steps)
                return player.play(lambda now: _recorded(recorded, now))
            made = iter(range(steps_count + 1))
            return player.play(lambda now: _made(dice, now, made, steps_count))
        finally:
            player.close()
            for world in worlds:
                world.close()


def kafka_command(kafka: Kafka, config: Path, jvm: Sequence[str]) -> Sequence[str]:
    """The command that starts Kafka's node."""
    return kafka.command(Main.RAFT_NODE, ["--config", str(config), *LOAD], log_level="INFO", jvm=jvm)


def quick_jvm(kafka: Kafka, folder: Path) -> Sequence[str]:
    """Options with which Kafka's node starts for half of the processor time: its classes are loaded from an archive.

    Without one, a node is started and ended here, in this folder, to write it. A JVM that cannot use it does without.
    """
    if isinstance(kafka, ArchivedKafka):
        return kafka.small_jvm
    archive = folder / "kafka.jsa"
    with Children() as children:
        world = World(
            "Kafka",
            children,
            folder / "archive",
            lambda config: kafka_command(kafka, config, (*SMALL_JVM, f"-XX:ArchiveClassesAtExit={archive}")),
        )
        try:
            write_disk(world, first_disk(Random(0)))
            world.start()
            world.wait_until_serving()
            world.end(is_kill=False)
        finally:
            world.close()
    has_ended = world.status != -signal.SIGKILL  # else the archive may be half written
    return (*SMALL_JVM, f"-XX:SharedArchiveFile={archive}") if has_ended and archive.exists() else SMALL_JVM


def situation_of(seed: int) -> Situation:
    """Every fourth sequence is of goodbyes, every fourth of snapshots."""
    # Goodbyes have odd seeds: a back-off never ends there, so that one too many shows.
    return Situation({}, is_of_goodbyes=seed % 4 == 3, has_snapshots=seed % 4 == 0 and seed > 0)


def _recorded(steps: Iterator[Step], now: Situation) -> Step | None:
    return next((each for each in steps if not isinstance(each, Answer) or each.fits(now)), None)


def _made(dice: Random, now: Situation, numbers: Iterator[int], steps_count: int) -> Step | None:
    number = next(numbers, None)
    if number is None:
        return None
    return next_step(dice, now) if number < steps_count else LAST


class _Player:
    def __init__(self, worlds: Sequence[World], now: Situation, seed: int, settle_timeout_s: float) -> None:
        self._worlds = worlds
        self._now = now
        self._seed = seed
        self._settle_timeout_s = settle_timeout_s
        self._steps: list[Step] = []
        self._pool = ThreadPoolExecutor(len(worlds))

    def close(self) -> None:
        """End the threads that ask the nodes."""
        self._pool.shutdown()

    def play(self, choose: Callable[[Situation], Step | None]) -> Finding | None:
        """Steps until ``choose`` has no more, or something differs."""
        now = self._now
        while True:
            looks, differences = self._settled()
            if differences:
                return self._finding(differences, looks)
            look = now.look = {**looks[0], SAME: all(each[SAME] for each in looks)}
            now.high_watermark = max(now.high_watermark, look["told"]["high_watermark"])
            # Before anything else Kafka reads from its file how much of the log is left.
            step = Restart(is_kill=True) if now.is_cut_inside else choose(now)
            if step is None:
                return None
            self._steps.append(step)
            outcomes = list(self._pool.map(lambda world, step=step: self._apply(world, step), self._worlds))
            self._check_kafka()
            differences = alike(*(plain(outcome) for outcome in outcomes))
            if differences:
                return self._finding([f"its answer: {each}" for each in differences], outcomes)
            _follow(now, step)

    def _finding(self, differences: Sequence[str], looks: Sequence[Any]) -> Finding:
        number = len(self._steps)
        return Finding(seed=self._seed, number=number, steps=self._steps, differences=differences, looks=looks)

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

    def _settled(self) -> tuple[Sequence[Look], Sequence[str]]:
        """What both look like, as soon as it stays the same; or what differs when time is over."""
        begun_s = time.monotonic()
        deadline = begun_s + self._settle_timeout_s
        same: Look | None = None
        since_s = 0.0
        while True:
            try:
                looks = list(self._pool.map(lambda world: world.observe(), self._worlds))
            except (OSError, ProtocolError) as error:
                self._check_kafka()
                ours = self._worlds[1]
                if time.monotonic() > deadline or ours.status is not None:
                    return (), [f"{error!r}; pykraft ended with {ours.status}: {ours.log()[-1_000:]}"]
                PAUSE.wait(LOOK_INTERVAL_S)
                continue
            differences = alike(*(plain(look) for look in looks))
            if differences or same != plain(looks[0]):
                same, since_s = None if differences else plain(looks[0]), time.monotonic()
            is_quiet = all(world.fetches_since(begun_s) for world in self._worlds)
            if same is not None and time.monotonic() - since_s >= (QUIET_S if is_quiet else STABLE_S):
                return looks, ()
            if time.monotonic() > deadline:
                return looks, differences or ["they go on changing"]
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
    now.is_cut_inside = False
    if isinstance(step, Request) and step.api_key == ApiKey.END_QUORUM_EPOCH:
        now.left.add(step.body["topics"][0]["partitions"][0]["leader_epoch"])
    if isinstance(step, Restart):
        now.heard.clear()
    if isinstance(step, Answer) and "responses" in step.body:
        told = step.body["responses"][0]["partitions"][0]
        now.high_watermark = max(now.high_watermark, told["high_watermark"])
        if told["error_code"] == 0:
            now.heard.add(now.epoch)
            if "diverging_epoch" not in told:
                now.agreed.add(now.epoch)
        cut = told.get("diverging_epoch", {}).get("end_offset", 0)
        now.is_cut_inside = any(each[0] < cut < each[1] for each in now.log)


def first_disk(dice: Random) -> dict[str, bytes]:
    """Files of a voter that has been in a quorum: a log of one or two epochs, and that it voted for nobody since."""
    change = LeaderChange(leader_id=NodeId(2), voters=tuple(map(NodeId, (NODE, *PEERS))), granting_voters=(NodeId(2),))
    parts = [encode_control_batch([change], base_offset=Offset(0), epoch=Epoch(1), timestamp_ms=TIMESTAMP_MS).data]
    offset, epoch = 1, 1
    for _ in range(dice.randint(0, 4)):
        values = [dice.randbytes(5) for _ in range(dice.randint(1, 5))]
        epoch += dice.choice((0, 0, 1))
        parts.append(
            encode_batch(values, base_offset=Offset(offset), epoch=Epoch(epoch), timestamp_ms=TIMESTAMP_MS).data
        )
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
