"""An embedded node in a process with few descriptors, and strangers that connect silently."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from pykraft.local.child import Children
from pykraft.local.cluster import SOURCES
from pykraft.local.voters import HOST, free_ports
from tests.processes.attack import crowd
from tests.processes.tales import Tales
from tests.tidy.repository import ROOT

pytestmark = [pytest.mark.processes]

DESCRIPTORS_MAX = 256
STRANGERS = 400
ACKS = 15
PROGRAM = f"""
import resource, runpy
resource.setrlimit(resource.RLIMIT_NOFILE, ({DESCRIPTORS_MAX}, {DESCRIPTORS_MAX}))
runpy.run_module("tests.processes.embedded", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize("node_id", [1, 2], ids=["the program's loop", "a thread of its own"])
def test_silent_strangers_leave_a_program_its_descriptors(tmp_path: Path, node_id: int) -> None:
    """A thousand of them ended such a program at ``ulimit -n 1024``."""
    [port] = free_ports(1)
    reading, writing = os.pipe()
    tales = Tales()
    tale = tales.begin(node_id, 0, reading)
    words = (str(node_id), f"{node_id}={HOST}:{port}", str(tmp_path / "data"), str(writing), "0")
    with Children(report=lambda ends: print(ends, file=sys.stderr)) as children:
        child = children.start(
            "the program",
            [sys.executable, "-c", PROGRAM, *words],
            tmp_path / "program.log",
            pass_fds=[writing],
            environment={"PYTHONPATH": os.pathsep.join([str(SOURCES), str(ROOT)])},
        )
        os.close(writing)

        def wait_for_acks() -> None:
            enough = len(tale.acked) + ACKS
            tales.wait_until(lambda: len(tale.acked) >= enough, "acknowledgements", [child])

        wait_for_acks()
        with crowd(port, STRANGERS, b""):
            wait_for_acks()
            assert len(list(Path(f"/proc/{child.pid}/fd").iterdir())) < DESCRIPTORS_MAX
        wait_for_acks()
    assert "Traceback" not in (tmp_path / "program.log").read_text()
