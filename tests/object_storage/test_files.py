"""Logs in object storage are planned, read and audited as in directories, with few small requests and clear errors."""

from __future__ import annotations

import json
import pickle
import random
import traceback
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from struct import Struct
from typing import TypeVar

import pytest
from click.testing import CliRunner

from pykraft.audit.directory_audit import AuditResult, AuditTask, DirectoryAudit, run_audits, run_task
from pykraft.audit.findings import AuditReport
from pykraft.cli.main import pykraft
from pykraft.errors import StorageError
from pykraft.log.fs import File
from pykraft.log.os_fs import OsFs
from pykraft.object_storage import files
from pykraft.object_storage.files import (
    AHEAD_SIZE_BYTES,
    BLOCK_SIZE_BYTES,
    BLOCKS_MAX,
    Files,
    RemoteFile,
    Store,
    expect_reads,
    store_of,
)
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
        (["pipeline", "status", "--tables", f"s3://a:{SECRET}@files/t"], "s3://…@files/…: give no key"),
        (["pipeline", "status", "--tables", "hdfs://host/t"], "hdfs://host/t: tables are in a folder, or in object"),
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


PATH = UriPath("s3://bucket/p-0/00000000000000000000.log")
KIB = 1024
CONTENT = random.Random(7).randbytes(1024 * KIB) * 40


class Counted:
    """An object in memory that remembers the ranges that were asked for."""

    def __init__(self, content: bytes = CONTENT) -> None:
        self.content = content
        self.size_bytes = len(content)
        self.asked: list[tuple[int, int]] = []
        self.opened = self.closed = 0

    def open(self) -> Counted:
        self.opened += 1
        return self

    def read(self, size_bytes: int, position: int) -> bytes:
        assert size_bytes > 0
        assert position + size_bytes <= self.size_bytes
        self.asked.append((position, size_bytes))
        return self.content[position : position + size_bytes]

    def close(self) -> None:
        self.closed += 1


def opened(there: Counted) -> RemoteFile:
    return RemoteFile(PATH, there.open, None)  # type: ignore[arg-type] # it has what a reader has


@pytest.fixture
def there() -> Counted:
    return Counted()


def test_any_read_returns_the_bytes_of_the_object(there: Counted) -> None:
    source = random.Random(11)
    with closing(opened(there)) as file:
        for _ in range(300):
            position = source.choice([0, source.randrange(len(CONTENT) + 10), file.size() - 5])
            size_bytes = source.choice([1, 61, 16 * KIB, 300 * KIB])
            if source.random() < 0.1:
                file.expect(position, position + source.randrange(20_000 * KIB))
            for _ in range(source.randrange(4)):
                assert file.pread(size_bytes, position) == CONTENT[position : position + size_bytes]
                position += max(0, size_bytes - source.randrange(3))
    assert there.closed == 1


def test_an_index_is_searched_with_few_requests() -> None:
    entry = Struct(">ii")
    there = Counted(b"".join(entry.pack(at, at * 4096) for at in range(262_144)))
    with closing(opened(there)) as file:

        def position_of(at: int) -> int:
            return entry.unpack(file.pread(entry.size, at * entry.size))[1]  # type: ignore[no-any-return]

        for number in range(0, 262_144, 16_384):
            assert bisect_left(range(262_144), number * 4096, key=position_of) == number
    assert len(there.asked) <= 32
    assert all(size_bytes <= BLOCK_SIZE_BYTES for _, size_bytes in there.asked)


def test_memory_holds_so_many_blocks(there: Counted) -> None:
    with closing(opened(there)) as file:
        for block in reversed(range(BLOCKS_MAX + 1)):
            file.pread(1, block * BLOCK_SIZE_BYTES * 3)
        asked = len(there.asked)
        file.pread(1, 0)
        assert len(there.asked) == asked
        file.pread(1, BLOCKS_MAX * BLOCK_SIZE_BYTES * 3)
        assert len(there.asked) == asked + 1


def test_reads_that_follow_each_other_take_more_and_more(there: Counted) -> None:
    with closing(opened(there)) as file:
        position = 0
        while data := file.pread(16 * KIB, position):
            position += len(data)
    sizes = [size_bytes for _, size_bytes in there.asked]
    assert sizes[:4] == [BLOCK_SIZE_BYTES, 2 * BLOCK_SIZE_BYTES, 4 * BLOCK_SIZE_BYTES, 8 * BLOCK_SIZE_BYTES]
    assert max(sizes) == AHEAD_SIZE_BYTES
    assert sum(sizes) == len(CONTENT)


def chunks(file: File, start: int, end: int) -> Iterator[bytes]:
    """A split as a task reads it: 2 MiB at a time, of which the last batch is cut and read again."""
    while start < end:
        data = file.pread(min(2048 * KIB, end - start), start)
        data = data[: max(len(data) - 700, 1)] if start + len(data) < end else data
        yield data
        start += len(data)


def test_a_known_range_comes_in_large_parts_each_byte_once_and_nothing_after_it(there: Counted) -> None:
    start, end = 3_000_001, 33_000_000
    with closing(opened(there)) as file:
        expect_reads(file, start, end)
        assert b"".join(chunks(file, start, end)) == CONTENT[start:end]
    assert len(there.asked) == -(-(end - start) // AHEAD_SIZE_BYTES)
    assert sum(size_bytes for _, size_bytes in there.asked) == end - start
    assert max(size_bytes for _, size_bytes in there.asked) == AHEAD_SIZE_BYTES


def test_a_range_that_is_left_early_is_fetched_one_part_ahead(there: Counted) -> None:
    with closing(opened(there)) as file:
        file.expect(0, len(CONTENT))
        file.pread(10, 0)
    assert sum(size_bytes for _, size_bytes in there.asked) <= 2 * AHEAD_SIZE_BYTES
    assert there.closed == 1


def test_a_part_that_fails_is_an_error_where_it_is_read(there: Counted) -> None:
    def fails(size_bytes: int, position: int) -> bytes:
        if position > 0:
            raise StorageError(PATH, "cannot be reached")
        return CONTENT[:size_bytes]

    there.read = fails  # type: ignore[method-assign]
    with closing(opened(there)) as file:
        file.expect(0, len(CONTENT))
        assert len(file.pread(2048 * KIB, 0)) == 2048 * KIB
        with pytest.raises(StorageError, match="cannot be reached"):
            file.pread(2048 * KIB, AHEAD_SIZE_BYTES)


def test_a_listed_object_is_opened_by_its_first_read(there: Counted) -> None:
    file = RemoteFile(PATH, there.open, 100)  # type: ignore[arg-type] # as above
    assert (file.size(), there.opened) == (100, 0)
    file.expect(0, 1_000)
    assert file.pread(200, 90) == CONTENT[90:100]
    assert file.pread(10, 100) == b""
    assert there.opened == 1
    file.close()
    file.close()
    assert there.closed == 1


@pytest.mark.parametrize("call", ["pwrite", "truncate", "sync"])
def test_an_object_is_not_written(call: str, there: Counted) -> None:
    words: dict[str, Sequence[object]] = {"pwrite": ([b"a"], 0), "truncate": (0,), "sync": ()}
    file = opened(there)
    with pytest.raises(AssertionError, match="object storage is only read"):
        getattr(file, call)(*words[call])
    file.reserve(0, 10)
    file.unreserve()
    file.uncache(0, 10)
    assert file.is_at(PATH)
    assert not file.is_at(Path("elsewhere"))
    assert there.opened == 0


def test_a_file_of_this_machine_needs_no_such_word(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    with closing(OsFs().open(tmp_path / "a")) as file:
        expect_reads(file, 0, 3)
        assert file.pread(3, 0) == b"abc"


SEGMENT = UriPath("s3://stores/n1/p-0/00000000000000000000.log")
STORED = bytes(range(256)) * 1024


@pytest.fixture
def store(storage: Storage, proxy: Proxy) -> Store:
    storage.put(str(SEGMENT), STORED)
    storage.put("s3://stores/n1/p-0/quorum-state", b"{}")
    return store_of(SEGMENT)


def error_text(ask: Callable[[], object]) -> str:
    """The error, of which no part, and no part of its traceback, has a secret."""
    with pytest.raises(StorageError) as raised:
        ask()
    everything = "".join(traceback.format_exception(raised.value))
    assert SECRET not in everything
    assert "AKIA" not in everything
    return str(raised.value)


@pytest.mark.spark
def test_a_folder_is_listed_with_sizes_and_an_object_read_in_ranges(store: Store, proxy: Proxy) -> None:
    found = {entry.name: entry.size_bytes for entry in store.entries(SEGMENT.parent)}
    assert found == {SEGMENT.name: len(STORED), "quorum-state": 2}
    assert [(entry.name, entry.size_bytes) for entry in store.entries(UriPath("s3://stores"))] == [("n1", None)]
    for path, size_bytes in ((SEGMENT, len(STORED)), (SEGMENT.parent, None)):
        entry = store.entry(path)
        assert entry is not None
        assert entry.size_bytes == size_bytes
    assert store.entry(SEGMENT.parent / "absent") is None
    reader = store.open(SEGMENT)
    assert reader.size_bytes == len(STORED)
    assert reader.read(1000, 5000) == STORED[5000:6000]
    reader.close()
    assert [ranged for method, _, ranged in proxy.requests if method == "GET" and ranged] == ["bytes=5000-5999"]


@pytest.mark.spark
def test_what_is_not_there(store: Store) -> None:
    missing = SEGMENT.parent / "absent"
    assert error_text(lambda: store.open(missing)) == f"{missing}: cannot open: there is no such object"
    assert error_text(lambda: store.entries(missing)) == f"{missing}: cannot list: there is no such object"
    other = UriPath("s3://no-such-bucket/n1")
    assert error_text(lambda: store_of(other).entries(other)).startswith(
        f"{other}: cannot list: there is no such bucket"
    )


@pytest.mark.spark
@pytest.mark.parametrize("status", [401, 403])
def test_credentials_that_do_not_suffice(status: int, store: Store, proxy: Proxy) -> None:
    proxy.answer(status, times=99)
    denied = f"{SEGMENT}: cannot open: access is denied: give credentials in the environment or the configuration files"
    assert error_text(lambda: store.open(SEGMENT)).startswith(denied)


@pytest.mark.spark
def test_no_credentials_at_all(store: Store, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    del store
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    proxy.answer(403, times=99)
    assert "access is denied" in error_text(lambda: Store("s3", "stores").entries(SEGMENT.parent))


@pytest.mark.spark
def test_a_server_that_is_busy_for_a_moment_is_asked_again(store: Store, proxy: Proxy) -> None:
    reader = store.open(SEGMENT)
    for size_bytes in (100, 100_000):  # a small answer has no room for a refusal
        proxy.answer(503)
        assert reader.read(size_bytes, 0) == STORED[:size_bytes]
        proxy.answer(503, times=2)
        failed = f"{SEGMENT}: cannot read {size_bytes} bytes at 0: the storage failed ("
        assert error_text(lambda: reader.read(size_bytes, 0)).startswith(failed)  # noqa: B023 - called at once


@pytest.mark.spark
def test_an_answer_that_is_cut_short_is_never_passed_on(store: Store, proxy: Proxy) -> None:
    reader = store.open(SEGMENT)
    proxy.cut()
    assert reader.read(1000, 0) == STORED[:1000]
    proxy.cut(times=99)
    assert error_text(lambda: reader.read(1000, 0)).startswith(f"{SEGMENT}: cannot read 1000 bytes at 0: ")


@pytest.mark.spark
def test_a_server_that_dies_in_the_middle_of_an_answer(store: Store, proxy: Proxy) -> None:
    reader = store.open(SEGMENT)
    proxy.die()
    assert error_text(lambda: reader.read(1000, 0)) == (
        f"{SEGMENT}: cannot read 1000 bytes at 0: the storage cannot be reached (NETWORK_CONNECTION)"
    )


@pytest.mark.spark
def test_an_object_that_shrank_since_it_was_opened(store: Store, storage: Storage) -> None:
    reader = store.open(SEGMENT)
    storage.put(str(SEGMENT), STORED[:500])
    shorter = "the object has become shorter meanwhile"
    assert error_text(lambda: reader.read(1000, 0)) == f"{SEGMENT}: cannot read 1000 bytes at 0: {shorter}"
    assert error_text(lambda: reader.read(1, 700)).startswith(f"{SEGMENT}: cannot read 1 bytes at 700: ")


@pytest.mark.spark
@pytest.mark.parametrize("mark", [files._MARK, files._OTHER_MARK])
def test_bytes_like_the_mark_of_unread_memory_are_read(mark: bytes, storage: Storage, proxy: Proxy) -> None:
    del proxy
    storage.put(str(SEGMENT), mark * 3)
    reader = store_of(SEGMENT).open(SEGMENT)
    for size_bytes in (48, 16, 1):
        assert reader.read(size_bytes, 48 - size_bytes) == (mark * 3)[48 - size_bytes :]
    assert reader.read(1, 0) == mark[:1]


@pytest.mark.spark
def test_a_bucket_that_everybody_may_read_is_asked_without_a_key(storage: Storage, proxy: Proxy) -> None:
    storage.put(str(SEGMENT), STORED)
    path = UriPath("s3://anonymous@stores/n1")
    assert [entry.name for entry in store_of(path).entries(path)] == ["p-0"]
    assert not any(proxy.signed)
    assert [entry.name for entry in store_of(SEGMENT).entries(UriPath("s3://stores/n1"))] == ["p-0"]
    assert proxy.signed[-1]


@pytest.mark.spark
def test_other_kinds_of_storage_are_known_to_the_library() -> None:
    assert store_of(UriPath("gs://anonymous@bucket/n1")) is store_of(UriPath("gs://anonymous@bucket/n2"))
    assert store_of(UriPath("abfss://logs@account.dfs.core.windows.net/n1")) is not None
    path = UriPath("hdfs://host:8020/n1")
    assert error_text(lambda: store_of(path)).startswith(f"{path}: cannot open: ")
