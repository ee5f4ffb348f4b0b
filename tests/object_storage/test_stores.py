"""What fails there is one sentence with the URI and without a secret; what fails for a moment is asked again."""

from __future__ import annotations

import traceback
from collections.abc import Callable

import pytest

from pykraft.errors import StorageError
from pykraft.object_storage import stores
from pykraft.object_storage.stores import Store, store_of
from pykraft.object_storage.uris import UriPath
from tests.object_storage.s3_server import SECRET, Proxy, Storage

pytestmark = pytest.mark.spark

SEGMENT = UriPath("s3://stores/n1/p-0/00000000000000000000.log")
CONTENT = bytes(range(256)) * 1024


@pytest.fixture
def store(storage: Storage, proxy: Proxy) -> Store:
    storage.put(str(SEGMENT), CONTENT)
    storage.put("s3://stores/n1/p-0/quorum-state", b"{}")
    return store_of(SEGMENT)


def told(ask: Callable[[], object]) -> str:
    """The error, of which no part, and no part of its traceback, has a secret."""
    with pytest.raises(StorageError) as raised:
        ask()
    everything = "".join(traceback.format_exception(raised.value))
    assert SECRET not in everything
    assert "AKIA" not in everything
    return str(raised.value)


def test_a_folder_is_listed_with_sizes_and_an_object_read_in_ranges(store: Store, proxy: Proxy) -> None:
    found = {entry.name: entry.size_bytes for entry in store.entries(SEGMENT.parent)}
    assert found == {SEGMENT.name: len(CONTENT), "quorum-state": 2}
    assert [(entry.name, entry.size_bytes) for entry in store.entries(UriPath("s3://stores"))] == [("n1", None)]
    for path, size_bytes in ((SEGMENT, len(CONTENT)), (SEGMENT.parent, None)):
        entry = store.entry(path)
        assert entry is not None
        assert entry.size_bytes == size_bytes
    assert store.entry(SEGMENT.parent / "absent") is None
    reader = store.open(SEGMENT)
    assert reader.size_bytes == len(CONTENT)
    assert reader.read(1000, 5000) == CONTENT[5000:6000]
    reader.close()
    assert [ranged for method, _, ranged in proxy.requests if method == "GET" and ranged] == ["bytes=5000-5999"]


def test_what_is_not_there(store: Store) -> None:
    missing = SEGMENT.parent / "absent"
    assert told(lambda: store.open(missing)) == f"{missing}: cannot open: there is no such object"
    assert told(lambda: store.entries(missing)) == f"{missing}: cannot list: there is no such object"
    other = UriPath("s3://no-such-bucket/n1")
    assert told(lambda: store_of(other).entries(other)).startswith(f"{other}: cannot list: there is no such bucket")


@pytest.mark.parametrize("status", [401, 403])
def test_credentials_that_do_not_suffice(status: int, store: Store, proxy: Proxy) -> None:
    proxy.answer(status, times=99)
    denied = f"{SEGMENT}: cannot open: access is denied: give credentials in the environment or the configuration files"
    assert told(lambda: store.open(SEGMENT)).startswith(denied)


def test_no_credentials_at_all(store: Store, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    del store
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    proxy.answer(403, times=99)
    assert "access is denied" in told(lambda: Store("s3", "stores").entries(SEGMENT.parent))


def test_a_server_that_is_busy_for_a_moment_is_asked_again(store: Store, proxy: Proxy) -> None:
    reader = store.open(SEGMENT)
    for size_bytes in (100, 100_000):  # a small answer has no room for a refusal
        proxy.answer(503)
        assert reader.read(size_bytes, 0) == CONTENT[:size_bytes]
        proxy.answer(503, times=2)
        failed = f"{SEGMENT}: cannot read {size_bytes} bytes at 0: the storage failed ("
        assert told(lambda: reader.read(size_bytes, 0)).startswith(failed)  # noqa: B023 - called at once


def test_an_answer_that_is_cut_short_is_never_passed_on(store: Store, proxy: Proxy) -> None:
    reader = store.open(SEGMENT)
    proxy.cut()
    assert reader.read(1000, 0) == CONTENT[:1000]
    proxy.cut(times=99)
    assert told(lambda: reader.read(1000, 0)).startswith(f"{SEGMENT}: cannot read 1000 bytes at 0: ")


def test_a_server_that_dies_in_the_middle_of_an_answer(store: Store, proxy: Proxy) -> None:
    reader = store.open(SEGMENT)
    proxy.die()
    assert told(lambda: reader.read(1000, 0)) == (
        f"{SEGMENT}: cannot read 1000 bytes at 0: the storage cannot be reached (NETWORK_CONNECTION)"
    )


def test_an_object_that_shrank_since_it_was_opened(store: Store, storage: Storage) -> None:
    reader = store.open(SEGMENT)
    storage.put(str(SEGMENT), CONTENT[:500])
    shorter = "the object has become shorter meanwhile"
    assert told(lambda: reader.read(1000, 0)) == f"{SEGMENT}: cannot read 1000 bytes at 0: {shorter}"
    assert told(lambda: reader.read(1, 700)).startswith(f"{SEGMENT}: cannot read 1 bytes at 700: ")


@pytest.mark.parametrize("mark", [stores._MARK, stores._OTHER_MARK])
def test_bytes_like_the_mark_of_unread_memory_are_read(mark: bytes, storage: Storage, proxy: Proxy) -> None:
    del proxy
    storage.put(str(SEGMENT), mark * 3)
    reader = store_of(SEGMENT).open(SEGMENT)
    for size_bytes in (48, 16, 1):
        assert reader.read(size_bytes, 48 - size_bytes) == (mark * 3)[48 - size_bytes :]
    assert reader.read(1, 0) == mark[:1]


def test_a_bucket_that_everybody_may_read_is_asked_without_a_key(storage: Storage, proxy: Proxy) -> None:
    storage.put(str(SEGMENT), CONTENT)
    path = UriPath("s3://anonymous@stores/n1")
    assert [entry.name for entry in store_of(path).entries(path)] == ["p-0"]
    assert not any(proxy.signed)
    assert [entry.name for entry in store_of(SEGMENT).entries(UriPath("s3://stores/n1"))] == ["p-0"]
    assert proxy.signed[-1]


def test_other_kinds_of_storage_are_known_to_the_library() -> None:
    assert store_of(UriPath("gs://anonymous@bucket/n1")) is store_of(UriPath("gs://anonymous@bucket/n2"))
    assert store_of(UriPath("abfss://logs@account.dfs.core.windows.net/n1")) is not None
    path = UriPath("hdfs://host:8020/n1")
    assert told(lambda: store_of(path)).startswith(f"{path}: cannot open: ")
