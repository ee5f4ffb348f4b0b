"""The source ``pykraft`` beside Spark's Kafka connector: rates, processor time and memory.

    python -m lab.benchmarks.spark_source
        [--runs N] [--results FILE] [--records N] [--case WORDS] [--cores N] [--dir DIR] [--docs FILE]

Writes the records of each case of `lab.benchmarks.spark_source.decoder` into a log of pykraft and a topic of a Kafka
broker: equal sizes, other sizes, keys, headers, each codec, JSON, Kafka's metadata. Reads them with two Spark sessions
of the same settings, one with the connector and one with our source, in turn: ``count``, offset and value, every
column; ours from files and from a live quorum. Prints the runs and a table; a run that stopped goes on with the same
command. Processor time and memory are those of the session: driver, Java and Python. Exit status 1 if the Python
processes of tasks took 512 MiB or more.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lab.benchmarks.spark_source.cases import Data
from lab.benchmarks.spark_source.decoder import cases
from lab.benchmarks.spark_source.run import run_all
from lab.benchmarks.spark_source.servers import CONNECTOR_VERSION
from lab.benchmarks.spark_source.table import fill_document, lines
from lab.benchmarks.suite.results import Results
from lab.benchmarks.suite.run import status_of
from lab.kafka.jars import KAFKA_VERSION
from pykraft.local.child import temporary_folder

TASKS_MIB = 512


def main(words: Sequence[str] | None = None) -> int:
    """Obey a command line; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="turns (default: 5)")
    parser.add_argument("--results", type=Path, default=Path("spark-source.jsonl"), help="file of results")
    parser.add_argument("--records", type=int, default=3_000_000, help="of the small ones (default: 3000000)")
    parser.add_argument("--case", default="", help="only cases with these words in the name")
    parser.add_argument("--cores", type=int, default=2, help="of each session (default: 2)")
    parser.add_argument("--dir", type=Path, default=Path(tempfile.gettempdir()), help="folder for the logs, 8 GB")
    parser.add_argument("--docs", type=Path, help="put the table between the markers of this document")
    chosen = parser.parse_args(words)
    if not chosen.dir.is_dir():
        parser.error(f"--dir: {chosen.dir} is not a directory")
    sets = [
        Data(name=case.name, records=case.count(chosen.records))
        for case in cases()
        if "kafka" in case.columns and chosen.case in case.name
    ]
    settings = {
        "sets": [data.name for data in sets],
        "records": [data.records for data in sets],
        "spark": CONNECTOR_VERSION,
        "kafka": KAFKA_VERSION,
    }

    def measure() -> None:
        with temporary_folder("pykraft-spark-source-", chosen.dir) as folder:
            run_all(sets, Results(chosen.results, settings), folder, runs=chosen.runs, cores=chosen.cores, report=_show)

    status = status_of(measure)
    if status:
        return status
    results = Results(chosen.results)
    print("\n".join(lines(results)))
    if chosen.docs is not None:
        chosen.docs.write_text(fill_document(chosen.docs.read_text(encoding="utf-8"), results), encoding="utf-8")
    most = max((run.figures["tasks_mib"] for run in results.runs), default=0.0)
    print(f"the Python processes of tasks took at most {most:.0f} MiB together; the limit is {TASKS_MIB} MiB")
    return 1 if most >= TASKS_MIB else 0


def _show(text: str, *, is_passing: bool = False) -> None:
    print(text, file=sys.stderr if is_passing else sys.stdout, flush=True)


if __name__ == "__main__":
    sys.exit(main())
