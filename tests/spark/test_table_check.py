"""The check of the kill rounds finds planted faults in tables."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from pykraft.local.journal import Acknowledged
from pykraft.server.workload import RECORD_HEAD
from pykraft.spark.tables.names import BRONZE, CONTROL, RECORDS, TABLES
from pykraft.types import Epoch, NodeId, Offset
from tests.spark.table_check import end_offset, problems_of

pytestmark = pytest.mark.spark

RUN = bytes.fromhex("00112233445566aa")


def acknowledged(base_offset: int, first_sequence: int, *, count: int = 2) -> Acknowledged:
    return Acknowledged(
        node=NodeId(1),
        run=RUN,
        epoch=Epoch(1),
        first_sequence=first_sequence,
        count=count,
        base_offset=Offset(base_offset),
        wall_ms=0,
        latency_ms=1.0,
    )


SAID = [acknowledged(1, 0), acknowledged(3, 2)]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """One control record and two batches of two records each."""
    folder = tmp_path / "tables"
    offsets = pa.array(range(5))
    for table, columns in {
        BRONZE: {"base_offset": pa.array([0, 1, 3]), "last_offset": [0, 2, 4], "records_count": [1, 2, 2]},
        RECORDS: {
            "offset": offsets,
            "is_control": [True, False, False, False, False],
            "value": [b"", *(RECORD_HEAD.pack(RUN, 1, sequence) for sequence in range(4))],
        },
        CONTROL: {"offset": offsets.slice(0, 1)},
    }.items():
        write_deltalake(folder / table, pa.table(columns))
    return folder


def change(root: Path, table: str, act: Callable[[Any], Any]) -> None:
    rows = act(DeltaTable(root / table).to_pyarrow_table())
    shutil.rmtree(root / table)
    write_deltalake(root / table, rows)


def test_sound_tables_have_no_problem(root: Path) -> None:
    assert problems_of(root, SAID) == []
    assert end_offset(root / "absent") == 0


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(
    "act", [lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]), lambda rows: rows.slice(1)], ids=["twice", "gone"]
)
def test_a_row_that_is_there_twice_or_not_at_all_is_found(table: str, act: Callable[[Any], Any], root: Path) -> None:
    change(root, table, act)
    assert any(problem.startswith(f"{table}: ") for problem in problems_of(root, SAID))


def test_records_that_changed_places_are_found(root: Path) -> None:
    def swap(rows: Any) -> Any:
        places = pc.sort_indices(rows, sort_keys=[("offset", "ascending")])
        values = rows.take(places).column("value")
        return rows.take(places).set_column(2, "value", values.take(pa.array([0, 1, 3, 2, 4])))

    change(root, RECORDS, swap)
    found = problems_of(root, SAID)
    assert f"{RECORDS}: at offset 3 sequence 1 follows 2" in found
    assert f"{RECORDS}: 2 records acknowledged at offset 1 are not all there" in found


def test_what_was_acknowledged_elsewhere_or_by_another_is_missed(root: Path) -> None:
    for said in (acknowledged(5, 4), acknowledged(1, 1), acknowledged(3, 2, count=3)):
        assert problems_of(root, [said]) != []
