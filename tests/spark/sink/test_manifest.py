"""A manifest is created once; only the newest is kept; what is in it is never discarded."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pykraft.errors import StorageError
from pykraft.spark.sink.manifest import Appended, Manifest, QueryFolder, next_generation
from pykraft.spark.sink.staged import StagedFile
from pykraft.types import Offset

FILES = tuple(
    StagedFile(name=f"file{partition}", partition=partition, rows=3 + partition, batches=2, size_bytes=100)
    for partition in range(2)
)


def manifest(batch_id: int, **changes: Any) -> Manifest:
    made = Manifest(
        batch_id=batch_id,
        generation=0,
        cluster_id="a-cluster",
        producer_id=2**40,
        producer_epoch=batch_id,
        start_offset=Offset(5),
        files=FILES,
    )
    return replace(made, **changes)


@pytest.fixture
def folder(tmp_path: Path) -> QueryFolder:
    return QueryFolder(tmp_path, "query")


def names(folder: QueryFolder) -> list[str]:
    return sorted(path.name for path in folder.path.iterdir())


def stage(folder: QueryFolder, batch_id: int, *more: str) -> None:
    folder.rows_folder(batch_id).mkdir(parents=True, exist_ok=True)
    for name in [*(each.name for each in FILES), *more]:
        (folder.rows_folder(batch_id) / name).touch()


def test_a_manifest_comes_back_as_it_was(folder: QueryFolder) -> None:
    assert folder.newest() is None
    made = manifest(3)
    assert folder.create(made) is made
    assert folder.newest() == made
    assert (made.rows, made.batches) == (7, 4)
    assert names(folder) == ["3.0.manifest.json"]


def test_of_many_drivers_one_creates_it_and_all_get_the_same(folder: QueryFolder) -> None:
    asked = [manifest(1, producer_id=number) for number in range(8)]
    with ThreadPoolExecutor(8) as threads:
        got = list(threads.map(folder.create, asked))
    assert len({each.producer_id for each in got}) == 1
    assert [each for each, wanted in zip(got, asked, strict=True) if each is wanted] == [folder.newest()]
    assert len(names(folder)) == 1


def test_a_later_generation_and_a_later_micro_batch_are_newer(folder: QueryFolder) -> None:
    folder.create(manifest(9))
    later = next_generation(manifest(9), producer_id=77)
    assert (later.generation, later.producer_id, later.producer_epoch, later.files) == (1, 77, 0, FILES)
    folder.create(later)
    assert folder.newest() == later
    folder.create(manifest(10))
    assert folder.newest() == manifest(10)


def test_a_finished_micro_batch_leaves_its_manifest_only(folder: QueryFolder) -> None:
    for batch_id in (1, 2, 3):
        stage(folder, batch_id)
        folder.create(manifest(batch_id))
        folder.note(manifest(batch_id), Appended(batches=1, rows=1))
    folder.create(manifest(2, generation=1))
    (folder.path / "2.0.manifest.json-00.tmp").touch()
    done = manifest(2, generation=1)
    assert not folder.is_finished(done)
    folder.finish(done)
    assert folder.is_finished(done)
    assert folder.progress(done) == Appended(batches=4, rows=7, is_done=True)
    of_the_next = ["3.0.manifest.json", "3.progress.json", "3.rows"]
    assert names(folder) == ["2.1.manifest.json", "2.progress.json", *of_the_next]


def test_a_driver_that_repeats_does_not_take_back_what_is_done(folder: QueryFolder) -> None:
    made = folder.create(manifest(4))
    folder.finish(made)
    folder.note(made, Appended(batches=1, rows=1))
    assert folder.progress(made).is_done


def test_rows_of_a_manifest_are_not_discarded(folder: QueryFolder) -> None:
    stage(folder, 5, "another")
    other = replace(FILES[0], name="another")
    folder.create(manifest(5))
    folder.discard(5, [*FILES, other])
    assert sorted(path.name for path in folder.rows_folder(5).iterdir()) == ["file0", "file1"]
    folder.withdraw(manifest(5))
    folder.discard(5, FILES)
    assert list(folder.rows_folder(5).iterdir()) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"version": 2, "files": []}', '{"version": 1, "files": [{}]}'])
def test_a_foreign_file_is_an_error_with_its_name(text: str, folder: QueryFolder) -> None:
    folder.path.mkdir()
    path = folder.path / "1.0.manifest.json"
    path.write_text(text)
    (folder.path / "x.0.manifest.json").touch()
    with pytest.raises(StorageError, match=f"{path}: is not what the sink wrote"):
        folder.newest()


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="the manifest cannot be created; the folder needs hard links"):
        QueryFolder(tmp_path / "missing", "query").create(manifest(1))
