"""Checks the file for the result of a long command before the command starts.

Invariant: nobody can mistake the result of an earlier run for this one's.
"""

from __future__ import annotations

from pathlib import Path

from pykraft.errors import UsageError


def make_room_for(json_path: Path | None) -> None:
    """Remove what an earlier run wrote there. Errors: UsageError when nothing can be written there."""
    if json_path is None:
        return
    if not json_path.absolute().parent.is_dir():
        raise UsageError(f"--json {json_path}: there is no folder {json_path.parent}")
    try:
        json_path.unlink(missing_ok=True)
        json_path.touch()
    except OSError as error:
        raise UsageError(f"--json {json_path}: {error.strerror}") from error
    json_path.unlink()
