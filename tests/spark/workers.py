"""Which worker of pytest-xdist runs which tests of the stage ``spark``: the scheduler of ``-p tests.spark.workers``.

- Tests in modules that use the fixture ``spark`` are two groups, each with a session and a worker. A session costs 12 s
  of processor time; with one alone, its worker goes on for minutes when the others have ended.
- A module with a fixture of its own scope, such as a cluster or an installed environment, is a group. The tests of
  object storage are one, with their server.
- All other tests are given out one by one, in the order in which they were collected: those marked ``long`` first.

The groups are read from the modules' text, since the process that schedules collects nothing. xdist's own groups
(``--dist loadgroup``) do nothing with pytest 9.2: xdist 3.8 puts them into an attribute that pytest no longer reads.
"""

from functools import cache

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from tests.tidy.repository import ROOT

SESSION, OF_MODULE = "spark: SparkSession", ("open_page:", 'scope="module"')
OF_SECOND_SESSION = (
    "tests/lab/demo/test_payloads.py",
    "tests/spark/test_audit_job.py",
    "tests/spark/test_source_at_uris.py",
)
"""They take a third of the sessions' time."""
OBJECT_STORAGE = "tests/object_storage/"


def group_of(node_id: str) -> str:
    """The group of a test: a session's, its module's, or its own."""
    module = node_id.partition("::")[0]
    text = _text(module)
    if SESSION in text:
        return "the second Spark session" if module in OF_SECOND_SESSION else "the first Spark session"
    if module.startswith(OBJECT_STORAGE):
        return OBJECT_STORAGE
    return module if any(word in text for word in OF_MODULE) else node_id


@cache
def _text(module: str) -> str:
    return (ROOT / module).read_text(encoding="utf-8")


class GroupScheduling(LoadScopeScheduling):
    """xdist's scheduling of whole groups, with `group_of`."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling:
    """See pytest-xdist."""
    return GroupScheduling(config, log)
