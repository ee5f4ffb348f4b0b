"""A URI is a path whose text it is, in every Python; one with a credential is refused and not repeated."""

import pickle
from pathlib import Path

import pytest

from pykraft.errors import StorageError, UsageError
from pykraft.object_storage.uris import UriPath, is_uri, located, restored

SEGMENT = "s3://bucket/n1/__cluster_metadata-0/00000000000000000000.log"


def test_its_parts_are_those_of_a_path_and_its_text_is_the_uri() -> None:
    path = located(SEGMENT)
    assert isinstance(path, UriPath)
    assert str(path) == SEGMENT
    assert (path.name, path.suffix, path.parent.name) == ("00000000000000000000.log", ".log", "__cluster_metadata-0")
    assert str(path.with_suffix(".index")) == SEGMENT.replace(".log", ".index")
    assert str(path.parent.parent / "meta.properties") == "s3://bucket/n1/meta.properties"
    assert (path.scheme, path.authority) == ("s3", "bucket")
    assert path.key == "n1/__cluster_metadata-0/00000000000000000000.log"
    assert str(StorageError(path, "is gone")) == f"{SEGMENT}: is gone"
    assert [str(each) for each in sorted([path, path.parent])] == [str(path.parent), SEGMENT]


def test_it_travels_and_is_a_key_of_a_dict() -> None:
    path = located(SEGMENT)
    there = pickle.loads(pickle.dumps(path))  # noqa: S301 - our own bytes
    assert (type(there), str(there)) == (UriPath, SEGMENT)
    assert {path: 1}[there] == 1
    assert path != located("s3://other/n1")
    assert path != Path("n1")


def test_what_path_made_of_its_text_is_the_same_file() -> None:
    plain = Path(SEGMENT)
    assert located(SEGMENT) == plain
    assert plain == located(SEGMENT)
    assert {located(SEGMENT): 1}[plain] == 1
    assert str(restored(plain)) == SEGMENT
    assert restored(located(SEGMENT)) == located(SEGMENT)
    for path in (Path("/data/n1"), Path(), Path("s3:"), Path("n1/s3:")):
        assert restored(path) is path


def test_no_call_asks_the_file_system_of_this_machine() -> None:
    path = located(SEGMENT)
    assert path.resolve() is path
    assert path.absolute() is path
    assert path.is_dir()
    with pytest.raises(AssertionError, match="not a file of this machine"):
        path.stat()


@pytest.mark.parametrize("text", ["data/n1", "/data/n1", "C:/n1", "n1/a://b"])
def test_everything_else_is_a_path(text: str) -> None:
    assert not is_uri(text)
    assert type(located(text)) is type(Path())


def test_a_file_uri_is_a_path() -> None:
    assert located("file:///data/n1") == Path("/data/n1")


@pytest.mark.parametrize(
    "text",
    [
        "s3a://bucket/a",
        "gs://bucket/a",
        "gs://anonymous@bucket/a",
        "abfss://logs@account.dfs.core.windows.net/a",
        "hdfs://user@host:8020/a",
        "S3://bucket/a",
    ],
)
def test_known_kinds_of_storage(text: str) -> None:
    assert str(located(text)) == text.replace("S3", "s3")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("ftp://host/a", "ftp://…: unknown scheme; known are s3, s3a, gs, "),
        ("file://host/a", "file://host/a: a file has no host"),
        ("s3:///a", "s3:///a: names no bucket; give s3://bucket/…"),
        ("hdfs:///a", "hdfs:///a: names no host; give hdfs://default/…"),
        ("s3://AKIASECRET:SECRET@bucket/a", "s3://…@bucket/…: give no key and no setting in a URI"),
        ("s3://SECRET@bucket/a", "s3://…@bucket/…: give no key"),
        ("hdfs://me:SECRET@host:8020/a", "hdfs://…@host:8020/…: give no key"),
        ("abfs://me:SECRET@account.dfs.core.windows.net/a", "abfs://…@account.dfs.core.windows.net/…: give no key"),
        ("s3://bucket/a?access_key=SECRET&secret_key=SECRET", "s3://bucket/…: give no key and no setting"),
        ("abfs://logs@account/a?sig=SECRET", "abfs://…@account/…: give no key"),
        ("file://me:SECRET@host/a", "file://…@host/a: a file has no host"),
        ("ftp://me:SECRET@host/a", "ftp://…: unknown scheme"),
    ],
)
def test_what_cannot_be_read_is_refused_without_its_secrets(text: str, told: str) -> None:
    with pytest.raises(UsageError) as raised:
        located(text)
    assert str(raised.value).startswith(told)
    assert "SECRET" not in str(raised.value)
