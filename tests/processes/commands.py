"""Runs commands of a clone as processes, as an operator does, and returns their output."""

import os
import subprocess
import sys

from lab.nodes.cluster import Cluster
from lab.nodes.verdict import JournalVerdict
from pykraft.local.voters import SOURCES

Finished = subprocess.CompletedProcess[str]


def run(*arguments: str, timeout_s: float = 60) -> Finished:
    """Run a command to its end."""
    command = [sys.executable, "-m", "lab", *arguments]
    environment = os.environ | {"PYTHONPATH": str(SOURCES)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False)


def assert_one_line(done: Finished, code: int, words: str) -> None:
    """It ended with this status, and with one line that has these words."""
    assert done.returncode == code, done
    assert done.stdout == ""
    assert done.stderr.startswith("pykraft: ")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr, done.stderr


def stop_under_load(cluster: Cluster) -> JournalVerdict:
    """Stop all nodes in order under load: nothing acknowledged is missing or doubled, and all logs are the same."""
    end_offset = cluster.wait_until_caught_up()
    assert cluster.stop() == dict.fromkeys(cluster.nodes, 0)
    verdict = cluster.check(caught_up_offset=end_offset)
    assert verdict.is_clean, verdict
    return verdict
