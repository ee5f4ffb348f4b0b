"""A missing package is one line that says what to install; whether hot modules are compiled; the cache folder."""

import importlib
import re
import sys
import tomllib
from pathlib import Path

import pytest

from pykraft.errors import UsageError
from pykraft.process import extras
from pykraft.process.extras import (
    INSTALLED_WITH,
    OPTIONAL,
    cache_folder,
    imported_for,
    install,
    is_compiled,
    kind_of_modules,
)
from tests.tidy.repository import ROOT


@pytest.mark.parametrize("module", OPTIONAL)
def test_a_package_that_is_not_installed_is_named_with_its_command(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, extra = OPTIONAL[module]
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UsageError) as caught, imported_for("the demo"):
        importlib.import_module(module)
    assert str(caught.value) == (f"the demo needs {package}, which is not installed: pip install 'pykraft[{extra}]'")


def test_a_part_of_a_package_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(UsageError, match=r"pykraft\[spark\]"), imported_for("it"):
        raise ModuleNotFoundError("No module named 'pyspark.sql'", name="pyspark.sql")
    for module in INSTALLED_WITH:
        with pytest.raises(UsageError, match=INSTALLED_WITH[module]), imported_for("it"):
            raise ModuleNotFoundError("absent", name=f"{module}.protocol")


def test_a_package_that_is_installed_but_broken_is_told_apart() -> None:
    with pytest.raises(UsageError) as caught, imported_for("it"):
        raise ImportError("libgomp.so.1: cannot open shared object file", name="numpy._core")
    assert str(caught.value) == "it needs numpy, which cannot be imported: libgomp.so.1: cannot open shared object file"


@pytest.mark.parametrize("name", [None, "pykraft.spark.run", "json"])
def test_another_import_that_fails_is_a_bug_and_passes(name: str | None) -> None:
    with pytest.raises(ImportError), imported_for("it"):
        raise ImportError("absent", name=name)


def test_what_can_be_imported_is() -> None:
    with imported_for("it"):
        import json
    assert json.loads("1") == 1


def test_each_extra_and_each_of_its_packages_is_known() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = {extra: lines for extra, lines in project["optional-dependencies"].items() if extra != "all"}
    listed = {(re.split(r"[^\w-]", line)[0], extra) for extra, lines in extras.items() for line in lines}
    assert listed == set(OPTIONAL.values())
    assert install("spark") == "pip install 'pykraft[spark]'"


def test_a_clone_is_plain_python() -> None:
    assert not is_compiled()
    assert kind_of_modules() == "plain Python"


def test_the_shared_code_of_compiled_modules_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "find_spec", lambda name: name if name == "pykraft__mypyc" else None)
    assert is_compiled()
    assert kind_of_modules() == "compiled"


def test_the_cache_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/pykraft")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert cache_folder() == Path("/home/somebody/.cache/pykraft")
