"""Spark's Kafka connector writes to and reads from a quorum of ours, while its leader is killed.

Spark runs in an environment of its own in the user's cache folder, with the Spark for which Maven has all jars of the
connector. The job writes the records in slices, with each compression, and reads them as a stream at the same time; the
leader is killed with SIGKILL and restarted when the written records reach the next of equal parts. At the end the job
reads all of them in one batch. Invariant: a run that ended before its last kill is an error, not a result.
"""

import json
import os
import subprocess
import time
import venv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from lab.kafka.jars import COPY_GOAL
from lab.nodes.cluster import Cluster
from lab.nodes.logs import read_stream, require_identical
from pykraft.config import METADATA_TOPIC_NAME
from pykraft.errors import LocalQuorumError, UsageError
from pykraft.local.child import Children
from pykraft.local.voters import HOST, QUICK
from pykraft.process.extras import cache_folder
from tests.kafka.clients.catalog import Program
from tests.kafka.clients.kills import SECONDS_A_KILL, Outcome, Output, Watch, kill_leader, tail
from tests.kafka.clients.program import COMPRESSIONS
from tests.kafka.clients.verdict import Place, judge, records_of
from tests.kafka.tables import ROOT

HERE: Final = Path(__file__).resolve().parent
VERSION: Final = "4.0.0"
TIMEOUT_S: Final = 600.0
"""The bound on the set-up of the environment."""
SLICE: Final = 500
"""Records of one write, as in job.py, which imports nothing of ours."""
STALL_TIMEOUT_S: Final = 240.0
"""Spark starts, and waits for records, for a minute or two on a busy machine."""


def environment() -> tuple[Path, Path]:
    """A Python with the connector's Spark, and the folder of its jars. Errors: UsageError."""
    home = cache_folder() / f"spark-kafka-connector-{VERSION}"
    python, jars, done = home / "bin" / "python", home / "jars", home / "complete"
    if not done.exists():
        venv.create(home, clear=True, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--require-hashes", "--no-deps"]
        _run([*pip, "--requirement", str(ROOT / "requirements" / "build.txt")])
        _run([*pip, "--no-build-isolation", "--requirement", str(HERE / "requirements.txt")])
        words = [f"-DoutputDirectory={jars}", "-DincludeScope=runtime"]
        _run(["mvn", "--quiet", "--batch-mode", "--file", str(HERE / "pom.xml"), COPY_GOAL, *words])
        done.touch()
    return python, jars


def run_spark_through_kills(
    count: int, kills: int, on_progress: Callable[[int, str | None], None], folder: Path
) -> Outcome:
    """Spark's job on a quorum of ours, and what the logs say; ``on_progress`` is that of a `Plan`.

    Errors: UsageError when the environment cannot be made; LocalQuorumError when Spark or the quorum gives up.
    """
    python, jars = environment()
    started = time.monotonic()
    with Children() as children:
        properties = {**QUICK, "pykraft.client.listeners": "PLAINTEXT"}
        cluster = Cluster(children, folder, throughput=0, properties=properties)
        cluster.start()
        servers = ",".join(f"{HOST}:{node.port}" for node in cluster.nodes.values())
        result, log_path = folder / "read.json", folder / "spark.log"
        # As with the other clients, the records last as long as the kills.
        pause_s = SECONDS_A_KILL * (kills + 1) * SLICE / count
        words = [servers, METADATA_TOPIC_NAME, str(count), str(pause_s), str(jars), str(result)]
        command = [str(python), str(HERE / "job.py"), *words]
        program = Program(command=command, place_of=_written, environment={"SPARK_LOCAL_IP": HOST})
        _kill_along(Output(children, "Spark", program, log_path), cluster, count, kills, on_progress)
        cluster.stop()
        streams = {f"node {node_id}": read_stream(node.partition) for node_id, node in cluster.nodes.items()}
        found: dict[str, Any] = json.loads(result.read_text())
        batch, stream = ([(offset, value) for offset, value in found[name]] for name in ("batch", "stream"))
        require_identical(streams, end_offset=batch[-1][0] + 1)
        log = max((records_of(each) for each in streams.values()), key=len)
    return Outcome(
        client="Spark's Kafka connector: sink, batch, stream",
        version=VERSION,
        is_idempotent=True,
        compressions=COMPRESSIONS,
        records=count,
        kills=kills,
        seconds=round(time.monotonic() - started, 1),
        verdict=judge({value: offset for offset, value in batch}, log, stream),
    )


def _kill_along(
    job: Output, cluster: Cluster, count: int, kills: int, on_progress: Callable[[int, str | None], None]
) -> None:
    """Kill leaders until the job has ended. Errors: LocalQuorumError."""
    watch, killed = Watch(job, timeout_s=STALL_TIMEOUT_S), 0
    while watch.goes_on():
        job.read()
        written = job.places[-1][0] if job.places else 0
        story = None
        if killed < kills and written >= count * (killed + 1) // (kills + 1):
            killed += 1
            story = f"kill {killed} at {written:,} records: {kill_leader(cluster)}"
        on_progress(written, story)
    log_path = job.child.log_path
    if job.child.status and log_path is not None:
        raise LocalQuorumError(f"Spark ended with {job.child.status}:\n{tail(log_path)}")
    if killed < kills:
        raise LocalQuorumError(f"Spark ended before kill {killed + 1} of {kills}")


def _written(line: str) -> Place | None:
    word, _, number = line.partition(" ")
    return (int(number), "") if word == "written" else None


def _run(command: Sequence[str]) -> None:
    """Errors: UsageError when the command fails."""
    try:
        done = subprocess.run(command, env=os.environ, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except FileNotFoundError:
        raise UsageError(f"there is no {command[0]} on the PATH") from None
    if done.returncode:
        raise UsageError(f"{command[0]} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
