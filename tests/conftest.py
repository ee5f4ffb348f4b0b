"""What all tests share: Hypothesis profiles, the order of tests, and the flag that rewrites scenario files.

Hypothesis profiles: `dev` generates new examples in each run and keeps those that failed; `ci` generates the same ones
every time, so that a failure is due to the change under test; `thorough` runs for hours. ``HYPOTHESIS_PROFILE`` selects
one.
"""

import asyncio
import inspect
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from coverage import Coverage
from hypothesis import settings

from tests.loops import judged

TESTS = Path(__file__).parent
FOLLOWED = {"core", "protocol", "rpc", "log", "snapshot", "host", "scenarios"}
"""Folders of tests: those of packages with a floor in ``bin/test``, and the scenarios."""

pytest_plugins = ["tests.browser", "tests.conformance.plugin", "tests.spark.plugin", "tests.stage_modules"]

settings.register_profile("dev", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True, database=None)
settings.register_profile("brief", deadline=None, print_blob=True, derandomize=True, database=None, max_examples=15)
settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=2_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if "CI" in os.environ else "dev"))


SIGNALS_OF_TESTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)


def pytest_configure() -> None:
    """Restore default signal handling and output, so that tests behave the same however the suite was started.

    A script starts background jobs with SIGINT ignored, and ``nohup`` with SIGHUP ignored. Children inherit this, and a
    test that interrupts one would wait for ever.
    """
    # Processes that tests start buffer their output, as a user's do, and not as in a container's image.
    os.environ.pop("PYTHONUNBUFFERED", None)
    os.environ["TERM"] = "xterm-256color"  # whatever the tests are started in: on a dumb terminal nothing is drawn
    for number in SIGNALS_OF_TESTS:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS_OF_TESTS)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    """Stop what pytest-cov 7.1 starts in each worker and forgets when it starts the worker's own measurement.

    Paused for a test, the own one hands over to the forgotten one, which makes the test as slow as if it were followed.
    """
    forgotten = Coverage.current()
    if forgotten is not None and hasattr(session.config, "workerinput"):
        forgotten.stop()


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    """Fail a test that leaves a signal handled or blocked otherwise; a later test would fail in its place."""
    before = _signal_handling()
    yield
    assert _signal_handling() == before, "this test changed how the process handles signals"


def _signal_handling() -> tuple[list[object], set[int]]:
    return [signal.getsignal(number) for number in SIGNALS_OF_TESTS], signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test on the loop of its ``runner``, or on one of its own: within its time, without complaints."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    given = pyfuncitem.funcargs
    test = pyfuncitem.obj(**{name: given[name] for name in inspect.signature(pyfuncitem.obj).parameters})
    runner = given.get("runner")
    (runner.run if isinstance(runner, asyncio.Runner) else asyncio.run)(judged(test))
    return True


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run long tests first: a worker that began one last would keep the others waiting. This runs after the shuffle.

    Of the long ones those of a group come first, since one worker runs them all.

    And follow lines for coverage only where ``bin/test`` counts them: it makes all others twice as slow. So a
    package must be reached by its own tests and those of the packages below the server. Of those the ones that try
    thousands of cases are marked ``no_cover`` where they are: the others reach all that these do.
    """
    if not (TESTS.parent / ".git").exists() and shutil.which("git") is None:
        # An unpacked source distribution, from which nobody makes a release.
        items[:] = [item for item in items if item.get_closest_marker("git") is None]
    for item in items:
        if not FOLLOWED.intersection(item.path.relative_to(TESTS).parts[:1]):
            item.add_marker(pytest.mark.no_cover)
    items.sort(key=_place)


def _place(item: pytest.Item) -> tuple[bool, bool]:
    return item.get_closest_marker("long") is None, item.get_closest_marker("xdist_group") is None


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--rewrite``. It is here because pytest reads the options of this file wherever it is started."""
    parser.addoption("--rewrite", action="store_true", help="write what the scenarios tell now; read the diff")
