"""``--modules-of STAGE``: import only the test modules that may hold tests of a stage.

Each of these stages runs a few hundred of all tests. To import the modules of the others takes each worker 15 s of
processor time. A test is of a stage by a marker, and a module whose text names neither the marker nor what sets it has
no such test. Invariant: every run that imports all modules, such as the stage unit, ends with an error if that does not
hold for a test.
"""

import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

_ANY: Final = r"getattr\(pytest\.mark"
"""A marker whose name is in a table."""
MODULES_OF: Final = {
    "compiled": re.compile(rf"mark\.compiled\b|{_ANY}"),
    "kafka": re.compile(rf"mark\.kafka\b|{_ANY}"),
    "pages": re.compile(rf"mark\.browser\b|open_page|{_ANY}"),
    "processes": re.compile(rf"mark\.processes\b|{_ANY}"),
    "sim": re.compile(rf"mark\.sim\b|{_ANY}"),
    "spark": re.compile(rf"^\S*/tests/(spark|lab/demo)/|mark\.spark\b|{_ANY}"),
}
STAGE_OF: Final = {**{stage: stage for stage in MODULES_OF}, "browser": "pages"}
"""The stage of each marker."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--modules-of", choices=sorted(MODULES_OF), help="import only modules that name this stage")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out modules that cannot have a test of the stage."""
    stage = config.getoption("--modules-of")
    if stage is None or collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    return None if MODULES_OF[stage].search(_text(collection_path)) else True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Errors: UsageError for a test that its stage would not collect."""
    if config.getoption("--modules-of") is None:
        check_modules(items)


def check_modules(items: list[pytest.Item]) -> None:
    """Errors: as above."""
    for item in items:
        for marker in item.iter_markers():
            stage = STAGE_OF.get(marker.name)
            if stage is not None and not MODULES_OF[stage].search(_text(item.path)):
                told = f"{item.nodeid} is marked {marker.name}, but its module matches no {MODULES_OF[stage].pattern}"
                raise pytest.UsageError(f"{told}: the stage {stage} would not collect it (tests/stage_modules.py)")


@cache
def _text(path: Path) -> str:
    """The path and the text of a module."""
    return f"{path}\n{path.read_text(encoding='utf-8')}"
