"""Logs in object storage are planned, read and audited as in directories, with one listing and few small requests."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest
from click.testing import CliRunner

from pykraft.audit.directory_audit import AuditResult, AuditTask, DirectoryAudit, run_audits, run_task
from pykraft.audit.findings import AuditReport
from pykraft.cli.main import pykraft
from pykraft.errors import StorageError
from pykraft.log.os_fs import OsFs
from pykraft.object_storage.files import Files
from pykraft.object_storage.uris import UriPath, located
from tests.audit.replicas import audited, our_replicas
from tests.object_storage.s3_server import SECRET, Proxy, Storage

T = TypeVar("T")
PARTITION = "__raft_performance_test-0"


def test_files_of_this_machine_are_read_as_ever(tmp_path: Path) -> None:
    (tmp_path / "n1").mkdir()
    (tmp_path / "n1" / "a").write_bytes(b"abc")
    fs = Files()
    assert fs.find(f"{tmp_path}/n*") == fs.find(str(tmp_path / "n1")) == [tmp_path / "n1"]
    assert fs.find(f"file://{tmp_path}/n*/a") == [tmp_path / "n1" / "a"]
    assert fs.listdir(tmp_path / "n1") == ["a"]
    assert fs.is_folder(tmp_path / "n1")
    assert not fs.is_folder(tmp_path / "n1" / "a")
    assert fs.exists(tmp_path / "n1" / "a")
    assert not fs.exists(tmp_path / "b")
    assert (fs.size_bytes(tmp_path / "n1" / "a"), fs.read(tmp_path / "n1" / "a")) == (3, b"abc")
    with closing(fs.open(tmp_path / "n1" / "a")) as file:
        assert type(file) is type(OsFs().open(tmp_path / "n1" / "a"))
    with pytest.raises(StorageError, match=f"{tmp_path}/b: cannot be read: No such file"):
        fs.size_bytes(tmp_path / "b")
    (tmp_path / "n1" / "b").touch()
    assert fs.listdir(tmp_path / "n1") == ["a", "b"]  # a directory here is looked at each time


def test_nothing_is_written() -> None:
    fs, path = Files(), located("s3://bucket/n1")
    calls: tuple[Callable[[], object], ...] = (
        lambda: fs.open(path, create=True),
        lambda: fs.mkdir(path),
        lambda: fs.rename(path, path),
        lambda: fs.remove(path),
        lambda: fs.sync_dir(path),
        lambda: fs.lock(path),
    )
    for call in calls:
        with pytest.raises(AssertionError, match="s3://bucket/n1: object storage is only read"):
            call()
    with fs.mutex():
        pass


@pytest.fixture
def replicas(tmp_path: Path, storage: Storage, proxy: Proxy) -> list[Path]:
    """Directories of three replicas, which are also in the bucket ``files``."""
    del proxy
    made = our_replicas(tmp_path / "replicas")
    for each in made:
        storage.upload(each, f"s3://files/{each.name}")
    return made


def run_anywhere(tasks: list[AuditTask]) -> list[AuditResult]:
    """As on executors: each task and its result travel, and none shares a listing."""
    return [travelled(run_task(Files(), travelled(task))) for task in tasks]


def travelled(value: T) -> T:
    """From one process to another."""
    found: T = pickle.loads(pickle.dumps(value))  # noqa: S301 - our own bytes
    return found


def audited_there(*uris: str) -> AuditReport:
    audit = DirectoryAudit(Files(), [located(uri) for uri in uris])
    (report,) = run_audits([audit], lambda tasks: run_anywhere(list(tasks)))
    return report


def as_there(report: AuditReport, folder: Path) -> list[object]:
    """The rows, with the names that the files have in the bucket."""
    return [json.loads(json.dumps(row).replace(str(folder), "s3://files")) for row in report.rows()]


@pytest.mark.spark
def test_an_audit_says_the_same_of_objects(replicas: list[Path], storage: Storage) -> None:
    segment = max(replicas[1].rglob("*.log"))
    damaged = bytearray(segment.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    segment.write_bytes(damaged)
    storage.put(f"s3://files/n2/{segment.relative_to(replicas[1])}", bytes(damaged))
    found = audited_there("s3://files/n1", "s3://files/n2")
    assert not found.is_sound
    assert list(found.rows()) == as_there(audited(replicas[:2]), replicas[0].parent)
    assert all(type(one.path) is UriPath for one in found.damage)


@pytest.mark.spark
def test_a_search_lists_each_folder_once(replicas: list[Path], proxy: Proxy) -> None:
    del replicas
    fs = Files()
    assert [str(path) for path in fs.find(f"s3a://files/n[12]/{PARTITION}")] == [
        f"s3a://files/n1/{PARTITION}",
        f"s3a://files/n2/{PARTITION}",
    ]
    (folder,) = fs.find(f"s3://files/n1/{PARTITION}")
    names = fs.listdir(folder)
    segments = fs.find(f"s3://files/n1/{PARTITION}/*.log")
    proxy.requests.clear()
    assert [path.name for path in segments] == [name for name in names if name.endswith(".log")]
    assert fs.find(f"s3://files/n1/{PARTITION}/*.log") == segments
    assert all(fs.exists(path) and not fs.is_folder(path) and fs.size_bytes(path) > 0 for path in segments)
    assert not fs.exists(folder / "absent")
    assert fs.find(f"s3://files/*/{PARTITION}/.*") == []
    listed = Counter(target for _, target, _ in proxy.requests)
    assert set(listed.values()) <= {1}
    assert Files().find("s3://files/n9/*") == []


@pytest.mark.spark
def test_dump_and_verify_take_uris(replicas: list[Path], proxy: Proxy) -> None:
    del proxy
    segment = min(replicas[0].rglob("*.log"))
    there = f"s3://files/n1/{segment.relative_to(replicas[0])}"
    for words, here in ((["dump", "--json", there], str(segment)), (["verify", "s3://files/n1"], str(replicas[0]))):
        found = CliRunner().invoke(pykraft, words)
        expected = CliRunner().invoke(pykraft, [*words[:-1], here])
        assert found.exit_code == expected.exit_code == 0, found.output
        assert found.output == expected.output.replace(str(replicas[0]), "s3://files/n1")


@pytest.mark.spark
def test_what_a_command_cannot_read_is_one_line(replicas: list[Path], proxy: Proxy) -> None:
    del replicas
    proxy.answer(403, times=99, fits=lambda _, target: "n3" in target)
    for words, told in (
        (["dump", "s3://files/absent.log"], "s3://files/absent.log: "),
        (["verify", "s3://no-such-bucket/n1"], "s3://no-such-bucket/n1: cannot list: there is no such bucket"),
        (["verify", "s3://files/n3"], "s3://files/n3: cannot list: access is denied"),
        (["verify", f"s3://a:{SECRET}@files/n1"], "s3://…@files/…: give no key"),
        (["pipeline", "status", "--tables", f"s3://a:{SECRET}@files/t"], "--tables a URI: is written as files"),
    ):
        found = CliRunner().invoke(pykraft, words)
        assert found.exit_code
        everything = f"{found.output} {found.exception}"
        assert told in everything
        assert SECRET not in everything


@pytest.mark.spark
def test_who_looks_again_after_an_object_vanished_sees_the_new_listing(replicas: list[Path], storage: Storage) -> None:
    del replicas
    fs = Files()
    (segment, *others) = fs.find(f"s3://files/n1/{PARTITION}/*.log")
    storage.remove(str(segment))
    with (
        pytest.raises(StorageError, match=f"{segment}: cannot open: there is no such object") as raised,
        closing(fs.open(segment)) as file,
    ):
        file.pread(10, 0)
    assert isinstance(raised.value.__cause__, FileNotFoundError)
    assert fs.find(f"s3://files/n1/{PARTITION}/*.log") == others
