"""Runs all cases in turn: in each turn every contender of every case once, each run written to the file at once.

Turn 0 is not counted: it warms the sessions, the page cache and the servers, and checks that each contender finds all
records. Invariant: a run that the file has is not repeated; both sessions stay open, and only one works at a time.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from lab.bench.measure import usage_of
from lab.benchmarks.spark_source.cases import CONNECTOR, OURS, QUERIES, Data, Query, Way, case_name, is_every_column
from lab.benchmarks.spark_source.servers import Servers, connector_jars
from lab.benchmarks.spark_source.usage import ProcessTree
from lab.benchmarks.suite.results import ROOT, Results, SuiteRun, busy_cores
from lab.progress import ReportProgress
from pykraft.errors import LocalQuorumError
from pykraft.local.child import Children
from tests.beside import environment, install
from tests.spark.oldest_pyspark import REQUIREMENTS

CONTROL_RECORDS_MAX: Final = 10
"""Records that the quorum itself wrote, which some queries count."""


class Session:
    """One of the two Spark sessions, in a process of its own."""

    def __init__(self, folder: Path, *, cores: int, jars: Sequence[Path] = ()) -> None:
        """Start it; `wait` for it."""
        command = [sys.executable, "-m", "lab.benchmarks.spark_source.session", "--cores", str(cores)]
        command += ["--jars", ",".join(map(str, jars))] if jars else []
        self._log = folder.open("w")
        own = environment(install(REQUIREMENTS))
        own["PYTHONPATH"] = os.pathsep.join([own["PYTHONPATH"], str(ROOT), str(ROOT / "src")])
        self._process = subprocess.Popen(
            command, cwd=ROOT, env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True
        )
        self.tree = ProcessTree(self._process.pid)

    def wait(self) -> dict[str, Any]:
        """Its next answer. Errors: LocalQuorumError when it has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            end = Path(self._log.name).read_text()[-3000:]
            raise LocalQuorumError(f"a Spark session ended with {self._process.wait()}:\n{end}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, order: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out an order. Errors: as `wait`."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self.wait()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._log.close()


def run_all(
    sets: Sequence[Data], results: Results, folder: Path, *, runs: int, cores: int, report: ReportProgress
) -> None:
    """Run what the file does not have. Errors: LocalQuorumError, UsageError."""
    if all(results.has(case_name(data, query), way.contender, turn) for turn, data, query, way in _all(sets, runs)):
        return
    install(REQUIREMENTS)
    jars = connector_jars()
    with Children() as children:
        report("writing logs, starting nodes and a broker", is_passing=True)
        servers = Servers(children, folder, sets)
        report("starting Spark", is_passing=True)
        sessions = {
            OURS: Session(folder / "ours.log", cores=cores),
            CONNECTOR: Session(folder / "connector.log", cores=cores, jars=jars),
        }
        for session in sessions.values():
            session.wait()
        for data in sets:
            report(f"filling a topic: {data.name}", is_passing=True)
            sessions[CONNECTOR].ask(servers.order_to_fill(data))
        for data in sets:
            for query in QUERIES:
                for way in query.ways:
                    report(f"warming: {case_name(data, query)}, {way.contender}", is_passing=True)
                    _one(sessions[way.session], servers, data, way)
        for turn, data, query, way in _all(sets, runs):
            if results.has(case_name(data, query), way.contender, turn):
                continue
            busy = round(busy_cores(), 2)
            figures = _one(sessions[way.session], servers, data, way)
            case = case_name(data, query)
            run = SuiteRun(case=case, contender=way.contender, turn=turn, figures=figures, busy_cores_before=busy)
            results.add(run)
            report(f"turn {turn}, {case}, {way.contender}: {_words(figures)}")
        for session in sessions.values():
            session.close()


def _all(sets: Sequence[Data], runs: int) -> list[tuple[int, Data, Query, Way]]:
    return [
        (turn, data, query, way)
        for turn in range(1, runs + 1)
        for data in sets
        for query in QUERIES
        for way in query.ways
    ]


def _one(session: Session, servers: Servers, data: Data, way: Way) -> dict[str, float]:
    """The figures of one run. Errors: LocalQuorumError, also when records are missing."""
    format_name, options = servers.source(way.place, data)
    order = {
        "format": format_name,
        "options": {**options, **way.options, **(data.options if is_every_column(way) else {})},
        "schema": way.schema,
        "select": way.select,
        "act": way.act,
    }
    server = servers.process(way.place, data)
    before_s = usage_of(server.pid, server.name).cpu_s
    session.tree.begin()
    answer = session.ask(order)
    used = session.tree.end()
    server_s = usage_of(server.pid, server.name).cpu_s - before_s
    found = answer["records"]
    if found is not None and not 0 <= found - data.records <= CONTROL_RECORDS_MAX:
        raise LocalQuorumError(f"{way.contender} found {found} records, not {data.records}")
    a_record = 1e6 / data.records
    return {
        "rate": data.records / answer["seconds"],
        "cpu_us": (used.java_s + used.python_s) * a_record,
        "java_us": used.java_s * a_record,
        "python_us": used.python_s * a_record,
        "server_us": server_s * a_record,
        "java_mib": used.java_mib,
        "tasks_mib": used.tasks_mib,
        "other_mib": used.other_mib,
    }


def _words(figures: Mapping[str, float]) -> str:
    return (
        f"{figures['rate'] / 1e6:.2f} M records/s, {figures['cpu_us']:.2f} µs of processor time a record, "
        f"Java {figures['java_mib']:.0f} MiB, tasks {figures['tasks_mib']:.0f} MiB"
    )
