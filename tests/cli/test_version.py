"""``pykraft version``."""

import json

import pytest
from click.testing import CliRunner

from pykraft import __version__
from pykraft.cli.version import version
from pykraft.process.extras import OPTIONAL


def test_it_is_printed() -> None:
    result = CliRunner().invoke(version)
    assert (result.exit_code, result.output) == (0, f"{__version__}\n")


def test_json_has_packages_and_apis() -> None:
    document = json.loads(CliRunner().invoke(version, ["--json"]).output)
    assert document["version"] == __version__
    assert list(document["packages"]) == [package for package, _ in OPTIONAL.values()]
    assert {"key": 52, "name": "VOTE", "min": 0, "max": 2, "listeners": "all"} in document["apis"]
    assert 0 in [api["key"] for api in document["apis"] if api["listeners"] == "pykraft.client.listeners"]


def test_verbose_is_the_same_for_a_person() -> None:
    result = CliRunner().invoke(version, ["--verbose"])
    lines = result.output.splitlines()
    assert lines[0].split() == ["version:", __version__]
    assert ["modules:", "plain", "Python"] in [line.split() for line in lines]
    assert ["VOTE", "52", "0", "to", "2", "all"] in [line.split() for line in lines]


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "pykraft.cli.version.OPTIONAL", {"no_such_module": ("absent", "fast"), "json": ("unnamed", "fast")}
    )
    assert json.loads(CliRunner().invoke(version, ["--json"]).output)["packages"] == {
        "absent": None,
        "unnamed": "unknown",
    }
    assert "not installed" in CliRunner().invoke(version, ["-v"]).output
