"""Python processes of Spark find pyspark in folders, so that Python keeps its bytecode."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pykraft.spark.session.home import ARCHIVES, linked_home, spark_home

PROGRAM = "import py4j.java_gateway, pyspark.worker as m; print(m.__file__); print(m.__spec__.cached)"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """What pip makes of pyspark and py4j, much smaller."""
    site = tmp_path / "site-packages"
    for module in ("pyspark/worker.py", "py4j/java_gateway.py", "pyspark/bin/spark-submit", "pyspark/jars/spark.jar"):
        (site / module).parent.mkdir(parents=True, exist_ok=True)
        (site / module).touch()
    (site / "pyspark" / ARCHIVES).mkdir(parents=True)
    for archive in ("pyspark.zip", "py4j-0.10.9.9-src.zip"):
        (site / "pyspark" / ARCHIVES / archive).touch()
    return site / "pyspark"


def test_python_finds_compiled_modules_where_spark_names_archives(package: Path, tmp_path: Path) -> None:
    home = linked_home(package, tmp_path / "cache")
    assert home is not None
    path = os.pathsep.join(str(home / ARCHIVES / name) for name in ("pyspark.zip", "py4j-0.10.9.9-src.zip"))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-S", "-P", "-c", PROGRAM]
    done = subprocess.run(
        command, env=environment | {"PYTHONPATH": path}, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    found, cached = done.stdout.splitlines()
    assert Path(found).resolve() == package / "worker.py"
    assert Path(cached).is_file()
    assert sorted(each.name for each in home.iterdir()) == ["bin", "jars", "python", "worker.py"]
    assert (home / "bin" / "spark-submit").is_file()


def test_a_home_is_made_once_for_each_package(package: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    home = linked_home(package, cache)
    assert linked_home(package, cache) == home
    assert list(cache.iterdir()) == [home]
    (package / ARCHIVES / "py4j-0.10.9.9-src.zip").rename(package / ARCHIVES / "py4j-0.11-src.zip")
    newer = linked_home(package, cache)
    assert newer is not None
    assert newer != home
    assert (newer / ARCHIVES / "py4j-0.11-src.zip" / "py4j" / "java_gateway.py").is_file()


def test_without_packages_or_a_cache_there_is_none(package: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert linked_home(package, tmp_path / "file") is None
    (package.parent / "py4j").rename(package.parent / "py5j")
    assert linked_home(package, tmp_path / "cache") is None
    assert linked_home(tmp_path, tmp_path / "cache") is None
    assert not (tmp_path / "cache").exists()


def test_without_pyspark_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pykraft.spark.session.home.find_spec", lambda _: None)
    assert spark_home() is None


def test_another_process_may_make_it_at_the_same_time(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rename = Path.rename

    def late(fresh: Path, home: Path) -> Path:
        (home / "python").mkdir(parents=True)
        return rename(fresh, home)

    monkeypatch.setattr(Path, "rename", late)
    home = linked_home(package, tmp_path / "cache")
    assert home is not None
    assert list((tmp_path / "cache").iterdir()) == [home]
