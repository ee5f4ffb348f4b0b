"""The user's settings win over ours, tasks are retried everywhere, and a cluster gets this package."""

from __future__ import annotations

from pathlib import Path

import pytest

from pykraft.errors import UsageError
from pykraft.spark.session.master import parse_conf, settings_at


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
