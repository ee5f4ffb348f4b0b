"""Unwanted lines are left out, also those of a process that outlives the block; all others pass."""

from __future__ import annotations

import os
import subprocess
import sys

CHILD = "input(); import os; os.write(2, b'noise' + bytes([10]) + b'late' + bytes([10]))"
PROGRAM = f"""
import os, subprocess, sys, threading
from pykraft.spark.session.quiet import without_lines

def say(line):
    os.write(2, line + bytes([10]))  # in one piece: print may write the end of a line on its own (PYTHONUNBUFFERED)

say(b"before")
with without_lines([b"noise", b"never"]):
    say(b"within")
    say(b"noise")
    child = subprocess.Popen([sys.executable, "-c", {CHILD!r}], stdin=subprocess.PIPE, text=True)
say(b"noise")
child.communicate("go on")
for thread in threading.enumerate():
    if thread.name == "standard error":
        thread.join(10)
"""


def test_lines_that_are_unwanted_are_left_out() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stderr.splitlines()
    assert sorted(lines) == ["before", "late", "noise", "within"]
    assert lines[0] == "before"
    assert done.returncode == 0
