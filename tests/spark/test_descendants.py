"""Descendant processes are found, and only the observed process is killed."""

import os
import signal
import subprocess
import sys
from dataclasses import replace

import pytest

from pykraft.errors import LocalQuorumError
from tests.spark.descendants import descendants, wait_until_gone

PROGRAM = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'])"


def test_what_is_below_is_found_and_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        below = descendants(os.getpid())
        own = next(each for each in below if each.pid == child.pid)
        grandchild = next(each for each in below if each.parent == child.pid)
        assert own.is_alive
        assert not own.is_java
        replace(own, begun=own.begun + 1).kill()
        assert own.is_alive
        grandchild.kill()
        own.kill()
        assert child.wait(10) in {-signal.SIGKILL, 0}
        wait_until_gone([own, grandchild])  # not whatever else is below: it may be the JVM of other tests
        own.kill()


def test_what_does_not_end_is_told_and_killed() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        own = next(each for each in descendants(os.getpid()) if each.pid == child.pid)
        with pytest.raises(LocalQuorumError, match="processes of Spark to end"):
            wait_until_gone([own], timeout_s=0)
        assert child.wait(10) == -signal.SIGKILL
