"""What `pykraft.client` offers is there under its name, and nothing that somebody does not ask for is imported."""

import subprocess
import sys

import pytest

import pykraft.client
from pykraft.local.voters import SOURCES

NODE = "pykraft.client.node"


def imported(statement: str) -> list[str]:
    """Our modules that are there after it, in a new process."""
    code = f"{statement}\nimport sys\nprint(*(name for name in sys.modules if name.startswith('pykraft.')))"
    environment = {"PYTHONPATH": str(SOURCES)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize("name", pykraft.client.__all__)
def test_each_name_is_there(name: str) -> None:
    assert getattr(pykraft.client, name)
    assert name in dir(pykraft.client)


def test_another_name_is_not() -> None:
    with pytest.raises(AttributeError, match=r"module 'pykraft\.client' has no attribute 'Nodes'"):
        getattr(pykraft.client, "Nodes")  # noqa: B009 - mypy knows that it is not there


def test_a_function_is_found_although_a_module_has_its_name() -> None:
    code = "import pykraft.client.configure, pykraft.client.life; from pykraft.client import *"
    imported(f"{code}; assert callable(configure) and callable(until_signal) and callable(Node)")


@pytest.mark.parametrize("module", ["admin", "connection", "observer", "quorum"])
def test_who_asks_a_quorum_from_outside_imports_no_node(module: str) -> None:
    """The commands of `pykraft quorum` and Spark's processes were twice as long in starting."""
    assert NODE in imported("from pykraft.client import Node")
    found = imported(f"import pykraft.client.remote.{module}")
    assert f"pykraft.client.remote.{module}" in found
    assert not {NODE, "pykraft.client.life", "pykraft.host.host", "pykraft.core.raft"} & set(found)
