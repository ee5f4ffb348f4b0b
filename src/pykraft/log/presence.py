"""Checks that the files of a running node are still where it opened them.

If somebody deletes or renames the directory of a running node, the node keeps its open files: it writes, syncs and
acknowledges, and a restart finds none of that. A sync notices a deleted file but not a renamed one, and an idle node
syncs nothing. So the lane's thread checks between two jobs, when every file must be in place:

- The name of the newest segment must belong to the file that is open, not to another one.
- The other segments must have their names, and so must ``quorum-state`` and ``partition.metadata`` once they were seen.

The lane looks after the lock of the directory at the same times (`pykraft.log.directory.LogDirectory.look`).

The check changes nothing. It ignores files that can be derived again: indexes, ``leader-epoch-checkpoint``, the
recovery point. Source: ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pykraft.errors import StorageError
from pykraft.log.fs import Fs
from pykraft.log.segment_view import SegmentView
from pykraft.log.small_files.partition import FILE_NAME as PARTITION_METADATA
from pykraft.log.small_files.quorum_state import FILE_NAME as QUORUM_STATE

_LASTING: Final = frozenset({QUORUM_STATE, PARTITION_METADATA})
"""Files that are never removed, only replaced by a rename."""


class Presence:
    """The check for one partition directory. Only the writer's thread uses it."""

    def __init__(self, fs: Fs, directory: Path) -> None:
        self._fs = fs
        self._directory = directory
        self._expected: frozenset[str] = frozenset()

    def look(self, views: Sequence[SegmentView]) -> None:
        """Compare the directory with all segments of the log. Errors: StorageError, which names what is gone."""
        if not self._fs.exists(self._directory):
            raise _gone(self._directory)
        active = views[-1]
        # Same name is not enough here: somebody may have put a copy in the file's place.
        if not active.file.is_at(active.path):
            raise _gone(active.path)
        names = frozenset(self._fs.listdir(self._directory))
        for name in (*sorted(self._expected), *(view.path.name for view in views)):
            if name not in names:
                raise _gone(self._directory / name)
        # quorum-state does not exist before the first election, so a file is required only once it was seen.
        self._expected = names & _LASTING


def _gone(path: Path) -> StorageError:
    return StorageError(
        path,
        "is gone, or something else is in its place: somebody deleted or renamed it while the node runs",
        repair="find out who did, and put it back if it was moved; a node that starts without it takes part once the "
        "other voters have proven its directory",
    )
