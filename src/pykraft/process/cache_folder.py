"""Where pykraft keeps files that it can make or fetch again: ``$XDG_CACHE_HOME/pykraft``, or ``~/.cache/pykraft``.

Source: XDG Base Directory Specification.
"""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """The folder for files that pykraft can fetch again."""
    chosen = os.environ.get("XDG_CACHE_HOME")
    return (Path(chosen) if chosen else Path.home() / ".cache") / "pykraft"
