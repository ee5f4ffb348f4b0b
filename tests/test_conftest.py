"""A suite that was started with ignored signals runs like any other; long tests start first; few tests are followed.

A stage imports its modules only, and a test that it would miss is an error. A call answers for its own memory alone.
"""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.conftest import FOLLOWED, SIGNALS_OF_TESTS, pytest_collection_modifyitems
from tests.loops import without_lag
from tests.memory import taking_less_than
from tests.spark.plugin import TESTS, needs_pyspark
from tests.stage_modules import MODULES_OF, cases, check_modules, pytest_ignore_collect

ROOT = Path(__file__).parents[1]
QUIETLY = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")


def ignore_all() -> None:
    """What a script does to what it starts in the background, and nohup, and more."""
    for number in SIGNALS_OF_TESTS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS_OF_TESTS)


@pytest.mark.parametrize("number", SIGNALS_OF_TESTS)
def test_what_a_test_starts_ends_by_a_signal(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        child.send_signal(number)
        assert child.wait(timeout=30) in (-number, 1)


def test_so_it_does_when_the_suite_was_started_with_signals_ignored() -> None:
    here = f"{Path(__file__).relative_to(ROOT)}::test_what_a_test_starts_ends_by_a_signal"
    done = subprocess.run(
        [*QUIETLY, here],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        preexec_fn=ignore_all,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_nothing_follows_a_test_that_counts_for_no_package() -> None:
    assert sys.gettrace() is None


def test_nothing_follows_it_in_a_worker_of_a_measured_run_either(tmp_path: Path) -> None:
    here = f"{Path(__file__).relative_to(ROOT)}::test_nothing_follows_a_test_that_counts_for_no_package"
    done = subprocess.run(
        [*QUIETLY, "-n", "1", "--cov=tests", "--cov-report=", here],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "COVERAGE_FILE": str(tmp_path / "coverage")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_a_busy_machine_is_no_complaint() -> None:
    lag = "WARNING pykraft the event loop was blocked for 266 ms; elections start at the fetch timeout\n"
    assert without_lag(lag) == ""
    assert without_lag(f"{lag}Traceback\n") == "Traceback\n"


def test_long_tests_start_first_and_the_others_keep_their_order(request: pytest.FixtureRequest) -> None:
    names = [name for name in vars(sys.modules[__name__]) if name.startswith("test_")]
    first, second, third = (pytest.Function.from_parent(request.node.parent, name=name) for name in names[-3:])
    third.add_marker(pytest.mark.long)
    items: list[pytest.Item] = [second, first, third]
    pytest_collection_modifyitems(items)
    assert items == [third, second, first]


def test_of_the_long_tests_those_of_a_group_start_first(request: pytest.FixtureRequest) -> None:
    name = request.node.name
    alone, grouped, short = (pytest.Function.from_parent(request.node.parent, name=name) for _ in range(3))
    alone.add_marker(pytest.mark.long)
    grouped.add_marker(pytest.mark.long)
    for each in (grouped, short):
        each.add_marker(pytest.mark.xdist_group("one worker"))
    items: list[pytest.Item] = [short, alone, grouped]
    pytest_collection_modifyitems(items)
    assert items == [grouped, alone, short]


def test_lines_are_followed_in_each_package_that_has_a_floor() -> None:
    script = (ROOT / "bin" / "test").read_text(encoding="utf-8")
    assert {*re.findall(r"(\w+):[\d.]+", re.search(r"floors=\((.*)\)", script)[1]), "scenarios"} == FOLLOWED  # type: ignore[index]


def test_lines_are_followed_where_they_count(request: pytest.FixtureRequest) -> None:
    here = request.node
    core = pytest.Function.from_parent(here.parent, name=here.name)
    core.path = Path(__file__).parent / "core" / "test_one.py"
    pytest_collection_modifyitems([here, core])
    assert [one.get_closest_marker("no_cover") is not None for one in (here, core)] == [True, False]


class Given:
    """A configuration with this option."""

    def __init__(self, stage: str | None) -> None:
        self._stage = stage

    def getoption(self, name: str) -> str | None:
        """See `pytest.Config`."""
        assert name == "--modules-of"
        return self._stage


def left_out(stage: str | None, path: str) -> bool:
    """Whether a module of the tests is not imported."""
    return bool(pytest_ignore_collect(ROOT / "tests" / path, Given(stage)))  # type: ignore[arg-type]


def test_modules_of_other_stages_are_left_out() -> None:
    assert not left_out("kafka", "kafka/test_chaos.py")
    assert left_out("kafka", "core/test_raft.py")
    assert not left_out(None, "core/test_raft.py")
    assert not left_out("kafka", "core/__init__.py")
    assert [stage for stage in MODULES_OF if left_out(stage, "documented/test_pages.py")] == []
    assert not left_out("spark", "spark/session/test_local.py")


def test_the_stage_spark_collects_all_that_others_cannot_import() -> None:
    """No other stage would see that one is missing."""
    modules = [path for path in TESTS.rglob("test_*.py") if needs_pyspark(path)]
    assert len(modules) > 20
    assert [path for path in modules if left_out("spark", str(path.relative_to(TESTS)))] == []


@pytest.mark.parametrize("marker", ["kafka", "sim", "browser"])
def test_a_test_that_its_stage_would_not_collect_is_an_error(
    marker: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    here = request.node
    module = tmp_path / "test_one.py"
    module.write_text("")
    one = pytest.Function.from_parent(here.parent, name=here.name, callobj=lambda: None)
    one.path = module
    check_modules([one])
    one.add_marker(marker)
    with pytest.raises(pytest.UsageError, match=f"is marked {marker}"):
        check_modules([one])


def test_a_call_that_takes_more_each_time_is_refused() -> None:
    # The interpreter adds a few bytes of its own, by its version.
    peaks = r"\[100\d{3}, 100\d{3}, 100\d{3}\]"
    with pytest.raises(AssertionError, match=f"it takes {peaks} bytes, each time at least 90000"):
        taking_less_than(90_000, lambda: len(bytes(100_000)))


def test_what_is_freed_at_once_counts() -> None:
    with pytest.raises(AssertionError, match="each time at least 90000"):
        taking_less_than(90_000, lambda: sum(len(bytes(30_000)) for _ in "ab") + len(bytes(100_000)))


def test_a_call_that_takes_no_more_has_a_result() -> None:
    assert taking_less_than(110_000, lambda: len(bytes(100_000))) == 100_000


def test_what_another_thread_takes_once_does_not_count() -> None:
    """A worker of pytest-xdist was told to give up a thousand tests while a Fetch request was decoded."""
    held: list[bytes] = []

    def once() -> int:
        if not held:
            other = threading.Thread(target=lambda: held.append(bytes(100_000)))
            other.start()
            other.join()
        return len(held)

    assert taking_less_than(90_000, once) == 1


def test_of_a_table_some_cases_are_chosen_the_first_and_the_last_among_them() -> None:
    table = [f"m.py::f[{at}]" for at in range(9)]
    others = ["m.py::g", "m.py::C::f[0]", "m.py::C::f[1]"]
    assert cases([*reversed(table), *others], 3) == {table[0], table[4], table[8], *others}
    assert cases(table, 1) == {table[0]}
