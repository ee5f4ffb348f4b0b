"""Why a stage of the demo failed, in one line, from what processes and Spark said about it.

Invariant: a full disk is told as that, whoever met it first. It refuses to know the stages.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from pykraft.errors import LocalQuorumError, PykraftError, StorageError
from pykraft.local.child import Child
from pykraft.spark.story import reason

NO_SPACE = os.strerror(errno.ENOSPC)
_OUR_LINE = re.compile(r"^pykraft: (.*)$", re.MULTILINE)


class ExplainedError(LocalQuorumError):
    """One whose line says why; no log needs to be read beside it."""


def failed(folder: Path, who: str, story: str) -> PykraftError:
    """The error for what ``who`` could not do; ``story`` is all that was said about it."""
    if NO_SPACE in story:
        return StorageError(folder, f"the disk is full, {who} cannot go on; make room, or use --data DIR")
    return ExplainedError(f"{who} cannot go on: {reason(story)}")


def ended(folder: Path, process: Child) -> PykraftError:
    """The error for a process that ended by itself."""
    log = process.log()
    if NO_SPACE in log:
        return failed(folder, process.name, log)
    said = _OUR_LINE.findall(log)
    text = f"{process.name} ended by itself, with status {process.status}"
    return ExplainedError(f"{text}: {said[-1]}") if said else LocalQuorumError(text)
