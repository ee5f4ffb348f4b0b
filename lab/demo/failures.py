"""Explains in one line why a stage of the demo failed, from the output of the processes and of Spark.

Invariant: a full disk is reported as such, whichever process met it first.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from pykraft.errors import LocalQuorumError, PykraftError, StorageError
from pykraft.local.child import Child
from pykraft.spark.error_text import reason

NO_SPACE = os.strerror(errno.ENOSPC)
_OUR_LINE = re.compile(r"^pykraft: (.*)$", re.MULTILINE)


class ExplainedError(LocalQuorumError):
    """An error whose message explains itself; no log is printed with it."""


def failed(folder: Path, who: str, story: str) -> PykraftError:
    """The error for what ``who`` could not do; ``story`` is all output about it."""
    if NO_SPACE in story:
        return StorageError(folder, f"the disk is full, so {who} cannot continue; free space, or use --data DIR")
    return ExplainedError(f"{who} cannot continue: {reason(story)}")


def ended(folder: Path, process: Child) -> PykraftError:
    """The error for a process that ended by itself."""
    log = process.log()
    if NO_SPACE in log:
        return failed(folder, process.name, log)
    said = _OUR_LINE.findall(log)
    text = f"{process.name} ended on its own with status {process.status}"
    return ExplainedError(f"{text}: {said[-1]}") if said else LocalQuorumError(text)
