"""``python -m tests.kafka.clients.connector``: Spark's Kafka connector writes to and reads from a quorum of ours.

It makes an environment of its own in the user's cache folder, with the Spark for which Maven has all jars of the
connector, and starts a quorum. ``--json`` prints the result, ``--write`` puts it into docs/clients.json and
docs/kafka.md. Exit status: 0; 1 when what was written and read differs; 2 when Maven or pip failed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from pykraft.config import METADATA_TOPIC_NAME
from pykraft.errors import UsageError
from pykraft.local.child import Children
from pykraft.local.cluster import Cluster
from pykraft.local.kafka.jars import COPY_GOAL, cache_folder
from pykraft.local.logs import read_stream, require_identical
from pykraft.local.ports import HOST
from tests.kafka.clients.kills import Outcome
from tests.kafka.clients.program import COMPRESSIONS
from tests.kafka.clients.table import table_of, write
from tests.kafka.clients.verdict import judge, records_of
from tests.kafka.tables import ROOT

HERE: Final = Path(__file__).resolve().parent
VERSION: Final = "4.0.0"
COUNT: Final = 20_000
"""Records of each compression."""
TIMEOUT_S: Final = 600.0


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


def play(python: Path, jars: Path) -> Outcome:
    """Spark's job on a quorum of ours, and what the logs say. Errors: LocalQuorumError, UsageError."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pykraft-connector-") as folder, Children() as children:
        properties = {"pykraft.client.listeners": "PLAINTEXT"}
        cluster = Cluster(children, Path(folder), throughput=0, properties=properties)
        cluster.start()
        servers = ",".join(f"{HOST}:{node.port}" for node in cluster.nodes.values())
        output = _run([str(python), str(HERE / "job.py"), servers, METADATA_TOPIC_NAME, str(COUNT), str(jars)])
        cluster.stop()
        streams = {f"node {node_id}": read_stream(node.partition) for node_id, node in cluster.nodes.items()}
        found: dict[str, Any] = json.loads(output.splitlines()[-1])
        batch, stream = ([(offset, value) for offset, value in found[name]] for name in ("batch", "stream"))
        require_identical(streams, end_offset=batch[-1][0] + 1)
        log = max((records_of(each) for each in streams.values()), key=len)
    return Outcome(
        client="Spark's Kafka connector: sink, batch, stream",
        version=VERSION,
        is_idempotent=True,
        compressions=COMPRESSIONS,
        records=COUNT * len(COMPRESSIONS),
        kills=0,
        seconds=round(time.monotonic() - started, 1),
        verdict=judge({value: offset for offset, value in batch}, log, stream),
    )


def main(words: Sequence[str]) -> int:
    """The command line; see the module."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.kafka.clients.connector",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print JSON to standard output")
    parser.add_argument("--write", action="store_true", help="write docs/clients.json and the table of docs/kafka.md")
    options = parser.parse_args(words)
    console = Console(stderr=True)
    try:
        with console.status("Spark's Kafka connector, on its first run with a download of 400 MB"):
            outcome = play(*environment())
    except UsageError as error:
        console.print(str(error), style="red", markup=False)
        return 2
    date = datetime.datetime.now(datetime.UTC).date().isoformat()
    document = {**outcome.document(), "date": date}
    if options.write:
        write([document])
    print(json.dumps(document, indent=2) if options.json else table_of([document]).rstrip("\n"))
    return 1 if outcome.problems else 0


def _run(command: Sequence[str]) -> str:
    """What the command prints. Errors: UsageError when it fails."""
    ours = {"SPARK_LOCAL_IP": HOST}
    try:
        done = subprocess.run(
            command, env=os.environ | ours, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except FileNotFoundError:
        raise UsageError(f"there is no {command[0]} on the PATH") from None
    if done.returncode:
        raise UsageError(f"{command[0]} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
