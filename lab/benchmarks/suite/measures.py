"""How one contender is measured once: each function here makes a function that starts it, measures and cleans up.

Quorums of servers run as in ``pykraft bench raft``, embedded nodes as in ``../client.py``, state machines as in
``../execute.py``, fail-over as in ``../failover.py``, recovery as in ``../verify.py``. Names of figures end with their
unit; ``rate`` is operations per second, ``cpu_us`` the processor time of all processes for one operation,
``memory_mib`` the highest resident size of any process. Errors of all: LocalQuorumError or UsageError if the contender
cannot be measured.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, cast

from lab.bench.measure import Contender, Run, Task
from lab.bench.options import BenchOptions
from lab.bench.quorums import Java, Ours
from lab.bench.race import Race
from lab.benchmarks import failover, verify
from lab.benchmarks.suite.appenders import Appenders
from lab.benchmarks.suite.peers import PEERS, Name, PeerLoad, run_peer
from lab.benchmarks.suite.producer import measure_producer
from lab.benchmarks.suite.quorums import Watched, WithLongLog
from lab.benchmarks.suite.results import ROOT
from lab.kafka.java import Kafka
from lab.progress import ReportProgress
from pykraft.errors import LocalQuorumError, UsageError
from pykraft.local.child import Children, temporary_folder

Figures = Mapping[str, float]
KAFKA_FIRST_RATES: Final = {10: 400_000, 100: 200_000, 256: 120_000, 1_024: 45_000, 65_536: 700}
"""Where the search for Kafka's highest rate begins, by record size: what it did on the machine of the documentation."""
START_RATE: Final = 1_000
CLIENT_EXTRA_S: Final = 120.0
MB: Final = 1e6


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where and how long to measure; ``place`` is a folder of the case that lives until its last run."""

    disk: Path
    memory: Path
    place: Path
    seconds: float
    warm_up_s: float
    rounds: int
    report: ReportProgress
    known: Mapping[str, Figures] = field(default_factory=dict)
    """The newest figures of this case by contender."""


Measure = Callable[[Setting], Figures]


def bulk(contender: str, *, size_bytes: int, nodes: int = 3, folder: Literal["disk", "memory"] = "disk") -> Measure:
    """As many records as the contender sustains, with a linger of 25 ms."""
    appenders, rates = Appenders(), dict[tuple[str, Path, int], int]()

    def measure(setting: Setting) -> Figures:
        found = appenders if contender == "appenders" else _server(contender)
        if "pykraft" in setting.known:
            appenders.group_size_bytes = max(size_bytes, int(setting.known["pykraft"]["batch_bytes"]))
        first = {**KAFKA_FIRST_RATES}
        if contender in setting.known and "asked" in setting.known[contender]:
            first[size_bytes] = int(setting.known[contender]["asked"])
        where = setting.disk if folder == "disk" else setting.memory
        task = Task(nodes=nodes, record_size_bytes=size_bytes, records_per_s=None, linger_ms=25)
        return _raced(found, task, where, setting, rates, first)

    return measure


def paced(contender: str, *, rate: int, size_bytes: int, linger_ms: int) -> Measure:
    """A fixed rate, which the contender may fail to sustain; the figure of interest is the latency."""

    def measure(setting: Setting) -> Figures:
        found = _server(contender)
        task = Task(nodes=3, record_size_bytes=size_bytes, records_per_s=rate, linger_ms=linger_ms)
        return _raced(found, task, setting.disk, setting)

    return measure


def watched(*, observers: int) -> Measure:
    """10,000 records a second of 100 bytes with a linger of 25 ms, while observers fetch them."""

    def measure(setting: Setting) -> Figures:
        task = Task(nodes=3, record_size_bytes=100, records_per_s=10_000, linger_ms=25)
        return _raced(Watched(observers), task, setting.disk, setting)

    return measure


def with_long_log(*, size_bytes: int) -> Measure:
    """10,000 records a second of 100 bytes without linger, on a log that has this size already."""

    def measure(setting: Setting) -> Figures:
        contender = WithLongLog(size_bytes, setting.place / "log") if size_bytes else Ours()
        task = Task(nodes=3, record_size_bytes=100, records_per_s=10_000, linger_ms=0)
        return _raced(contender, task, setting.disk, setting)

    return measure


def single(contender: str, *, window: int, size_bytes: int = 100) -> Measure:
    """One value after the other from each of ``window`` callers."""

    def measure(setting: Setting) -> Figures:
        if contender == "pykraft":
            return _own_proposals(window, size_bytes, setting)
        if contender == "appenders":  # a group is what all callers together have under way
            task = Task(nodes=3, record_size_bytes=size_bytes, records_per_s=None, linger_ms=0)
            return _raced(Appenders(window * size_bytes), task, setting.disk, setting)
        load = PeerLoad(window=window, size_bytes=size_bytes, seconds=setting.seconds)
        return run_peer(_peer(contender), load, setting.disk)

    return measure


def executed(contender: str, *, window: int, on: Literal["leader", "follower"] = "leader") -> Measure:
    """One command after the other from each of ``window`` callers; ours are dataclasses with the suffix ``-json``."""

    def measure(setting: Setting) -> Figures:
        if contender not in PEERS:
            serde = "json" if contender.endswith("-json") else "bytes"
            return _own_machine(setting, on=on, work="execute", callers=str(window), serde=serde)
        load = PeerLoad(window=window, size_bytes=100, seconds=setting.seconds)
        return run_peer(_peer(contender), load, setting.disk)

    return measure


def followed_reads(*, window: int) -> Measure:
    """One linearizable read after the other from each of ``window`` callers on a follower."""

    def measure(setting: Setting) -> Figures:
        return _own_machine(setting, on="follower", work="read", callers=str(window))

    return measure


def produced(contender: str, *, size_bytes: int) -> Measure:
    """Records that Kafka's own ProducerPerformance writes with acks=all."""

    def measure(setting: Setting) -> Figures:
        with temporary_folder("pykraft-suite-", setting.disk) as home:
            return measure_producer(contender, home, size_bytes=size_bytes, seconds=setting.seconds)

    return measure


def fail_over(how: str) -> Measure:
    """From the signal to the first record that another leader acknowledges, several times."""

    def measure(setting: Setting) -> Figures:
        times_ms, _ = failover.measure(how, setting.rounds, setting.disk)
        ascending = sorted(times_ms)
        return {"p50_ms": ascending[len(ascending) // 2], "worst_ms": ascending[-1], "rounds": len(ascending)}

    return measure


def start(contender: str) -> Measure:
    """From the start of the only node's process to its first committed record."""

    def measure(setting: Setting) -> Figures:
        found = _server(contender)
        task = Task(nodes=1, record_size_bytes=100, records_per_s=START_RATE, linger_ms=0)
        with temporary_folder("pykraft-suite-", setting.disk) as home, Children() as children:
            quorum = found.quorum(children, home, task)
            begun_s = time.monotonic()
            quorum.start()
            try:
                while (at := quorum.watermark()).offset < 2:  # the first record says who leads
                    pass
                usage = quorum.usage()
            finally:
                quorum.close()
        used_s = sum(each.cpu_s for each in usage.values())
        memory_mib = max(each.memory_mib for each in usage.values())
        return {"start_ms": (at.at_s - begun_s) * 1_000, "cpu_s": used_s, "memory_mib": memory_mib}

    return measure


def recovery(what: str, *, batch_size_bytes: int, log_size_bytes: int) -> Measure:
    """Reading of a whole log: with a CRC alone, as a start does, and as ``pykraft verify`` does."""
    work = {"crc": verify.read_only, "recovery": verify.recovery, "verify": verify.check}[what]

    def measure(setting: Setting) -> Figures:
        folder = setting.place / "log" / "__raft_performance_test-0"
        if not folder.exists():
            overhead_bytes = 70  # of a batch with one record
            verify.write_log(folder, [bytes(batch_size_bytes - overhead_bytes)], log_size_bytes)
        size_bytes = sum(path.stat().st_size for path in folder.glob("*.log"))
        begun_s, used_before_s = time.perf_counter(), time.process_time()
        work(folder)
        took_s, used_s = time.perf_counter() - begun_s, time.process_time() - used_before_s
        return {"mb_per_s": size_bytes / took_s / MB, "cpu_s": used_s, "mb_per_cpu_s": size_bytes / used_s / MB}

    return measure


def _raced(
    contender: Contender,
    task: Task,
    folder: Path,
    setting: Setting,
    rates: dict[tuple[str, Path, int], int] | None = None,
    first_rates: Mapping[int, int] | None = None,
) -> Figures:
    options = BenchOptions(
        nodes=task.nodes,
        record_sizes_bytes=(task.record_size_bytes,),
        records_per_s=task.records_per_s,
        seconds=setting.seconds,
        warm_up_s=setting.warm_up_s,
        runs=1,
        linger_ms=task.linger_ms,
        folders=(folder,),
    )
    [lap] = Race(options, [contender], setting.report, rates=rates, first_rates=first_rates).laps()
    if lap.run.failure is not None:
        raise LocalQuorumError(lap.run.failure)
    asked = {} if lap.records_per_s is None else {"asked": lap.records_per_s}
    return {**_figures_of(lap.run, task), **asked}


def _figures_of(run: Run, task: Task) -> dict[str, float]:
    latencies = {f"{name}_ms": value for name, value in run.latency_ms.items()}
    batch = {} if run.batch_size_bytes is None else {"batch_bytes": run.batch_size_bytes}
    return {
        "rate": run.records_per_s,
        "mb_per_s": run.records_per_s * task.record_size_bytes / MB,
        **latencies,
        "cpu_us": run.cpu_us_per_record,
        "leader_cpu": run.leader_cpu,
        "follower_cpu": run.follower_cpu,
        "memory_mib": run.memory_mib,
        **batch,
    }


def _own_proposals(window: int, size_bytes: int, setting: Setting) -> Figures:
    """``lab/benchmarks/client.py`` with three processes; the callers are in the leader's."""
    result = _own_program("client", setting, {"processes": "3", "callers": str(window), "size": str(size_bytes)})
    names = {"rate": "records_per_s", "cpu_us": "cpu_us_per_record", "leader_cpu_us": "leader_cpu_us_per_record"}
    return {name: result[names.get(name, name)] for name in (*names, "p50_ms", "p99_ms", "memory_mib")}


def _own_machine(setting: Setting, **options: str) -> Figures:
    result = _own_program("execute", setting, options)
    names = ("rate", "p50_ms", "p99_ms", "worst_ms", "cpu_us", "callers_cpu_us", "memory_mib")
    return {name: result[name] for name in names}


def _own_program(name: str, setting: Setting, options: Mapping[str, str]) -> Mapping[str, float]:
    """One result of a program of this folder, in an interpreter of its own. Errors: LocalQuorumError."""
    told = setting.place / f"{name}-{time.monotonic_ns()}.json"
    given = {**options, "seconds": str(setting.seconds), "directory": str(setting.disk), "json": str(told)}
    words = [word for option, value in given.items() for word in (f"--{option}", value)]
    command = [sys.executable, "-m", f"lab.benchmarks.{name}", *words]
    limit_s = setting.seconds + CLIENT_EXTRA_S
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit_s, check=False)
    if done.returncode:
        raise LocalQuorumError(f"lab/benchmarks/{name}.py: {(done.stderr.strip().splitlines() or ['no word'])[-1]}")
    [result] = json.loads(told.read_text())
    return cast("Mapping[str, float]", result)


def _server(name: str) -> Contender:
    has_tls = name.endswith("-tls")
    return Java(Kafka.find(None), has_tls=has_tls) if name.startswith("kafka") else Ours(has_tls=has_tls)


def _peer(name: str) -> Name:
    match name:
        case "pysyncobj" | "hashicorp" | "etcd" | "dragonboat" | "rqlite":
            return name
        case _:
            raise UsageError(f"{name} is no peer")
