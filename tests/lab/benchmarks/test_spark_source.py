"""The comparison with Spark's Kafka connector: its table comes from its file, and processes are watched as they are."""

import subprocess
import sys
from pathlib import Path

import pytest

from lab.benchmarks.spark_source.cases import CONNECTOR, FILES, LIVE, QUERIES, Data, case_name
from lab.benchmarks.spark_source.decoder import cases, write_case
from lab.benchmarks.spark_source.table import fill_document, lines
from lab.benchmarks.spark_source.usage import ProcessTree
from lab.benchmarks.suite.results import Results, SuiteRun
from pykraft.protocol.records import decode_records, scan

pytestmark = pytest.mark.spark

DATA = Data(name="100 B", records=1_000)
SETTINGS = {"sets": [DATA.name], "records": [DATA.records], "spark": "4.2.0", "kafka": "4.3.1"}
BUSY = "import sys; print(sum(range(3_000_000)), flush=True); sys.stdin.read()"


def results(folder: Path) -> Results:
    """Two turns of counting: ours is three and four times as quick."""
    made = Results(folder / "runs.jsonl", SETTINGS)
    for turn in (1, 2):
        for contender, rate in ((CONNECTOR, 1e6), (FILES, (turn + 2) * 1e6), (LIVE, 2e6)):
            figures = {"rate": rate, "cpu_us": 0.5, "java_mib": 700.0, "tasks_mib": 100.0 * turn}
            made.add(SuiteRun(case=case_name(DATA, QUERIES[0]), contender=contender, turn=turn, figures=figures))
    return made


def test_the_table_has_a_ratio_for_each_turn(tmp_path: Path) -> None:
    told = list(lines(results(tmp_path)))
    measured = "1.00 (1.00–1.00) | 3.50 (3.00–4.00) | 2.00 (2.00–2.00) |  | 0.50 | 0.50 | 0.50"
    assert told[2] == f"| 100 B | count | {measured} |"
    assert told[3] == "| 100 B | offset and value |  |  |  |  |  |  |  |"
    text = "\n".join(told)
    assert "Spark and connector 4.2.0, Kafka 4.3.1; median (least–most) of 2 turns." in text
    assert "Java took at most 700 MiB in ours, Python processes of tasks 200 MiB." in text


def test_a_document_gets_the_table_between_its_markers(tmp_path: Path) -> None:
    text = "before\n<!-- connector -->\n\nold\n\n<!-- end connector -->\nafter\n"
    filled = fill_document(text, results(tmp_path))
    assert filled.startswith("before\n<!-- connector -->\n\n| ")
    assert filled.endswith("\n\n<!-- end connector -->\nafter\n")
    assert "old" not in filled


def test_the_logs_have_the_records_of_all_kinds(tmp_path: Path) -> None:
    found = {}
    for at, case in enumerate(cases()):
        count = case.count(1_000)
        write_case(tmp_path / f"{at}", case, count)
        data = b"".join(file.read_bytes() for file in (tmp_path / f"{at}").iterdir())
        records = [
            record for place, header in scan(data) for record in decode_records(data[place : place + header.size_bytes])
        ]
        assert len(records) == count
        assert case.batch_size_bytes > 20 * case.per_batch
        found[case.name] = records
    assert any(record.headers for record in found["80 to 120 B, key and two headers"])
    assert {len(record.value or b"") for record in found["1 KiB, equal"]} == {1_024}
    assert {name for name in found if "JSON" in name} == {
        f"JSON of 300 B with keys{words}" for words in ("", ", zstd", ", lz4", ", snappy", ", gzip")
    }


def test_a_process_below_is_seen() -> None:
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BUSY!r}])"
    with subprocess.Popen([sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        tree = ProcessTree(child.pid)
        tree.begin()
        assert child.stdout is not None
        assert child.stdout.readline()
        used = tree.end()
        child.communicate()
    assert used.python_s > 0
    assert (used.java_s, used.java_mib, used.tasks_mib) == (0, 0, 0)
    assert used.other_mib > 0
