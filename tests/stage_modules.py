"""``--modules-of STAGE``: import only the test modules that may hold tests of a stage.

Each of these stages runs a few hundred of all tests. To import the modules of the others takes each worker 15 s of
processor time. A test is of a stage by a marker, and a module whose text names neither the marker nor what sets it has
no such test. Invariant: every run that imports all modules, such as the stage unit, ends with an error if that does not
hold for a test.

``--cases-max N``: of each test function run at most N of its cases, the same in every run, the first and the last among
them. The newest Python differs from the oldest in what it is, and not from case to case of one table.
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
    parser.addoption("--cases-max", type=int, help="run at most so many cases of each test function")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out modules that cannot have a test of the stage."""
    stage = config.getoption("--modules-of")
    if stage is None or collection_path.suffix != ".py" or not collection_path.name.startswith("test_"):
        return None
    return None if MODULES_OF[stage].search(_text(collection_path)) else True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out cases beyond the wanted. Errors: UsageError for a test that its stage would not collect."""
    if config.getoption("--modules-of") is None:
        check_modules(items)
    most = config.getoption("--cases-max")
    if most is not None:
        chosen = cases([item.nodeid for item in items], most)
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in chosen])
        items[:] = [item for item in items if item.nodeid in chosen]


def cases(node_ids: list[str], most: int) -> set[str]:
    """Of each function at most so many, at even distances among its cases in the order of their names."""
    of_function: dict[str, list[str]] = {}
    for node_id in sorted(node_ids):
        of_function.setdefault(node_id.partition("[")[0], []).append(node_id)
    return {
        found[at * (len(found) - 1) // max(1, min(most, len(found)) - 1)]
        for found in of_function.values()
        for at in range(min(most, len(found)))
    }


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
