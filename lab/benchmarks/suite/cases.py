"""The cases of the suite, and which of them make the short list.

A case compares its contenders, and a group its cases: in each turn each of them runs once. Invariant: the name of a
case says all that distinguishes it, so results can be matched by it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from lab.benchmarks.suite import measures
from lab.benchmarks.suite.measures import Measure
from lab.benchmarks.suite.peers import PROPOSERS
from lab.benchmarks.suite.producer import KAFKAS, WARM_UP_RECORDS
from pykraft.errors import UsageError
from pykraft.text.words import counted, did_you_mean

SIZES = (10, 100, 256, 1_024, 65_536)
KAFKA_PACED_MAX = 50_000
"""At 500,000 records a second Kafka's load thread dies."""
TLS_RATE = 5_000
"""Records a second that each contender sustains on two cores."""
GIB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """``group`` collects the cases of one table and plot; ``label`` is its row, ``position`` its place there."""

    group: str
    name: str
    label: str
    position: float
    contenders: Mapping[str, Measure]


SHORT = (
    *(f"record-size-{size}" for size in (10, 100, 1_024)),
    "single-1",
    "single-2048",
    "latency-1000-linger-0",
    "latency-50000-linger-0",
    "observers-0",
    "observers-100",
    "failover-kill",
    "failover-term",
    "start",
    "recovery-256",
    "recovery-16384",
)
"""A quarter of an hour with three runs of three seconds each."""


def all_cases() -> list[Case]:
    loads = [*_sizes(), *_tls(), *_voters(), *_singles(), *_producers(), *_latencies(), *_observers(), *_log_sizes()]
    return [*loads, *_machines(), *_failovers(), *_starts()]


def chosen_cases(words: Sequence[str]) -> list[Case]:
    """Cases by name or group; ``short`` and ``all`` are lists. Errors: UsageError for a word that names none."""
    known = all_cases()
    wanted: set[str] = set()
    for word in words:
        names = [case.name for case in known if word in ("all", case.name, case.group)]
        names += SHORT if word == "short" else []
        if not names:
            every = [case.name for case in known]
            hint = did_you_mean(word, ["short", "all", *dict.fromkeys(case.group for case in known), *every])
            raise UsageError(f"--cases {word}: there is no such case or group{hint}; the command list shows all")
        wanted |= set(names)
    return [case for case in known if case.name in wanted]


def _sizes() -> Iterator[Case]:
    for group, folder in (("record-size", "disk"), ("record-size-memory", "memory")):
        for size in SIZES:
            yield Case(
                group=group,
                name=f"{group}-{size}",
                label=f"{size:,} B",
                position=size,
                contenders={
                    name: measures.bulk(name, size_bytes=size, folder="disk" if folder == "disk" else "memory")
                    for name in ("pykraft", "kafka", "appenders")
                },
            )


def _tls() -> Iterator[Case]:
    """With TLS beside without, in turn: what a quorum sustains, and a fixed rate, whose processor time compares."""
    names = ("pykraft", "pykraft-tls", "kafka", "kafka-tls")
    for size in (100, 1_024):
        yield Case(
            group="tls",
            name=f"tls-{size}",
            label=f"{size:,} B",
            position=size,
            contenders={name: measures.bulk(name, size_bytes=size) for name in names},
        )
    for size in (100, 1_024):
        yield Case(
            group="tls-latency",
            name=f"tls-latency-{size}",
            label=f"{TLS_RATE:,}/s of {size:,} B, linger 0 ms",
            position=size,
            contenders={name: measures.paced(name, rate=TLS_RATE, size_bytes=size, linger_ms=0) for name in names},
        )


def _voters() -> Iterator[Case]:
    for nodes in (1, 3, 5, 7):
        contenders = {name: measures.bulk(name, size_bytes=100, nodes=nodes) for name in ("pykraft", "appenders")}
        yield Case(
            group="voters", name=f"voters-{nodes}", label=counted(nodes, "voter"), position=nodes, contenders=contenders
        )


def _singles() -> Iterator[Case]:
    for window in (1, 64, 2_048):
        contenders = {name: measures.single(name, window=window) for name in ("pykraft", *PROPOSERS, "appenders")}
        yield Case(
            group="single",
            name=f"single-{window}",
            label=counted(window, "caller"),
            position=window,
            contenders=contenders,
        )


def _machines() -> Iterator[Case]:
    for window in (1, 64, 1_024):
        label = counted(window, "caller")
        names = ("pykraft", "pykraft-json")
        contenders = {name: measures.executed(name, window=window) for name in (*names, "pysyncobj", "etcd", "rqlite")}
        yield Case(group="execute", name=f"execute-{window}", label=label, position=window, contenders=contenders)
        contenders = {name: measures.executed(name, window=window, on="follower") for name in names}
        yield Case(
            group="execute-follower",
            name=f"execute-follower-{window}",
            label=label,
            position=window,
            contenders=contenders,
        )
        yield Case(
            group="read-follower",
            name=f"read-follower-{window}",
            label=label,
            position=window,
            contenders={"pykraft": measures.followed_reads(window=window)},
        )


def _producers() -> Iterator[Case]:
    for size in WARM_UP_RECORDS:
        yield Case(
            group="producer",
            name=f"producer-{size}",
            label=f"{size:,} B",
            position=size,
            contenders={name: measures.produced(name, size_bytes=size) for name in ("pykraft", *KAFKAS)},
        )


def _latencies() -> Iterator[Case]:
    for rate in (1_000, 10_000, 50_000, 500_000):
        for linger_ms in (0, 5, 25):
            names = ("pykraft", "kafka") if linger_ms == 25 and rate <= KAFKA_PACED_MAX else ("pykraft",)
            size = 256 if rate == 1_000 else 100
            yield Case(
                group="latency",
                name=f"latency-{rate}-linger-{linger_ms}",
                label=f"{rate:,}/s of {size} B, linger {linger_ms} ms",
                position=rate,
                contenders={
                    name: measures.paced(name, rate=rate, size_bytes=size, linger_ms=linger_ms) for name in names
                },
            )


def _observers() -> Iterator[Case]:
    for count in (0, 1, 10, 100):
        contenders = {"pykraft": measures.watched(observers=count)}
        yield Case(
            group="observers",
            name=f"observers-{count}",
            label=counted(count, "observer"),
            position=count,
            contenders=contenders,
        )


def _log_sizes() -> Iterator[Case]:
    for gib in (0, 1, 4):
        contenders = {"pykraft": measures.with_long_log(size_bytes=gib * GIB)}
        label = f"{gib} GiB" if gib else "empty"
        yield Case(group="log-size", name=f"log-size-{gib}", label=label, position=gib, contenders=contenders)


def _failovers() -> Iterator[Case]:
    for position, (how, label) in enumerate(
        {"kill": "kill -9", "term": "SIGTERM, graceful", "stop": "SIGSTOP, frozen"}.items()
    ):
        yield Case(
            group="failover",
            name=f"failover-{how}",
            label=label,
            position=position,
            contenders={"pykraft": measures.fail_over(how)},
        )


def _starts() -> Iterator[Case]:
    contenders = {name: measures.start(name) for name in ("pykraft", "kafka")}
    yield Case(group="start", name="start", label="one node", position=0, contenders=contenders)
    for size, log_size_bytes in ((256, GIB // 4), (16_384, GIB), (1_048_576, GIB)):
        yield Case(
            group="recovery",
            name=f"recovery-{size}",
            label=f"{size:,} B",
            position=size,
            contenders={
                name: measures.recovery(name, batch_size_bytes=size, log_size_bytes=log_size_bytes)
                for name in ("recovery", "verify", "crc")
            },
        )
