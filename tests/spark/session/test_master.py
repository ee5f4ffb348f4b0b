"""The user's settings win over ours, tasks are retried everywhere, and a cluster gets this package."""

import os
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from pykraft.errors import StorageError, UsageError
from pykraft.spark.session.master import cached_package, parse_conf, settings_at, write_package


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("given", "master"),
    [
        (None, "local[2,4]"),
        ("local", "local[1,4]"),
        ("local[3]", "local[3,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("spark://one:7077,two:7077", "spark://one:7077,two:7077"),
        ("yarn", "yarn"),
    ],
)
def test_a_task_is_tried_again_unless_that_is_said_otherwise(given: str | None, master: str) -> None:
    assert settings_at("name", master=given)["spark.master"] == master
    if given is not None:
        assert settings_at("name", conf={"spark.master": given})["spark.master"] == master


@pytest.mark.parametrize("given", ["", "cluster", "spark:", "spark://", "localhost", "local[2", "sc://one:15002"])
def test_what_is_no_master_is_told(given: str) -> None:
    with pytest.raises(UsageError, match=r"--master .*: it must be local"):
        settings_at("name", master=given)


def test_a_cluster_gets_this_package_and_the_driver_an_address_that_it_can_reach(cache: Path) -> None:
    settings = settings_at("name", master="spark://one:7077", conf={"spark.submit.pyFiles": "mine.py"})
    package, mine = settings["spark.submit.pyFiles"].split(",")
    assert Path(package).parent == cache / "pykraft"
    assert (Path(package).is_file(), mine) == (True, "mine.py")
    assert "spark.driver.host" not in settings
    here = settings_at("name")
    assert "spark.submit.pyFiles" not in here
    assert here["spark.driver.host"] == "127.0.0.1"


def test_what_is_given_wins_and_options_of_java_add_up() -> None:
    conf = parse_conf([" spark.driver.memory = 2g", "spark.driver.extraJavaOptions=-Da=b -Dc=d"])
    settings = settings_at("name", conf=conf)
    assert settings["spark.driver.memory"] == "2g"
    assert settings["spark.driver.extraJavaOptions"].endswith(" -Da=b -Dc=d")
    assert "log4j2.properties" in settings["spark.driver.extraJavaOptions"]


@pytest.mark.parametrize("given", ["spark.driver.memory", "memory=2g", "=", ""])
def test_what_is_no_property_is_told(given: str) -> None:
    with pytest.raises(UsageError, match="it must be a property of Spark and its value"):
        parse_conf([given])


CHILD = "input(); import os; os.write(2, b'noise' + bytes([10]) + b'late' + bytes([10]))"
PROGRAM = f"""
import os, subprocess, sys, threading
from pykraft.spark.session.master import without_lines

def say(line):
    os.write(2, line + bytes([10]))  # in one piece: print may write the end of a line on its own (PYTHONUNBUFFERED)

say(b"before")
with without_lines([b"noise", b"never"]):
    say(b"within")
    say(b"noise")
    child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdin=subprocess.PIPE, text=True)
say(b"noise")
child.communicate("go on")
for thread in threading.enumerate():
    if thread.name == "standard error":
        thread.join(10)
"""


def test_lines_that_are_unwanted_are_left_out() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stderr.splitlines()
    assert sorted(lines) == ["before", "late", "noise", "within"]
    assert lines[0] == "before"
    assert done.returncode == 0


def test_python_imports_from_it(tmp_path: Path) -> None:
    path = tmp_path / "made" / "here.zip"
    write_package(path)
    ask = "import pykraft.protocol.records as m; print(m.__file__)"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", ask],
        env=environment | {"PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(path / "pykraft" / "protocol" / "records.py")
    assert list(path.parent.iterdir()) == [path]
    with ZipFile(path) as package:
        assert "pyspark_pykraft/__init__.py" in package.namelist()


def test_it_is_made_once(tmp_path: Path) -> None:
    first = cached_package(tmp_path)
    content, made = first.read_bytes(), first.stat().st_mtime_ns
    assert cached_package(tmp_path) == first
    assert first.stat().st_mtime_ns == made
    write_package(first)
    assert first.read_bytes() == content


def test_a_file_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot be written"):
        write_package(tmp_path / "file" / "x.zip")
