"""Where tables may be, and what deltalake is told; `tests.object_storage.test_delta_tables` has tables in a bucket."""

from pathlib import Path

import pytest

from pykraft.errors import StorageError, UsageError
from pykraft.object_storage.files import forget_stores
from pykraft.object_storage.uris import UriPath, located
from pykraft.spark.tables.table_folder import LOG, delta_place, log_of, make_folder, open_table, tables_at
from tests.object_storage.s3_server import SECRET, environment
from tests.spark.tables.files import make_table

pytestmark = pytest.mark.spark


def test_what_no_table_can_be_in_is_refused() -> None:
    for uri in ("hdfs://host/tables", "viewfs://host/tables", "s3://anonymous@bucket/tables"):
        with pytest.raises(UsageError, match=r"tables are in a folder, or in object storage of s3://, .* credentials"):
            tables_at(uri)
    for place in (f"s3://key:{SECRET}@bucket/tables", Path(f"s3://key:{SECRET}@bucket/tables")):
        with pytest.raises(UsageError, match="give no key") as raised:
            tables_at(place)
        assert SECRET not in str(raised.value)
    assert tables_at("folder") == Path("folder")
    assert isinstance(tables_at(Path("s3://bucket/tables")), UriPath)


def test_deltalake_is_given_the_names_that_it_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = "http://localhost:1"
    for name, value in environment(endpoint).items():
        monkeypatch.setenv(name, value)
    forget_stores()
    uri, options = delta_place(located("s3a://bucket/tables/t"))
    forget_stores()
    assert options is not None
    assert (uri, options["endpoint"], options["allow_http"]) == ("s3://bucket/tables/t", endpoint, "true")
    assert delta_place(located("gcs://bucket/t"))[0] == "gs://bucket/t"
    assert delta_place(Path("t")) == ("t", None)


def test_a_folder_without_a_table_has_none_and_one_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    assert open_table(tmp_path) is None
    assert open_table(tmp_path / "absent") is None
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=f"{tmp_path}/file: the table cannot be opened"):
        open_table(tmp_path / "file")
    with pytest.raises(StorageError, match="cannot be made"):
        make_folder(tmp_path / "file" / "t")


def test_the_log_is_found_whatever_the_folder_s_name(tmp_path: Path) -> None:
    folder = tmp_path / "50 % é"
    make_table(folder, appends=0)
    table = open_table(folder)
    assert table is not None
    assert log_of(table) == folder / LOG
