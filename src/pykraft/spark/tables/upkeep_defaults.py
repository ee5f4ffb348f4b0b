"""The defaults of the upkeep of tables, without imports, for the command line."""

from __future__ import annotations

from typing import Final

TARGET_SIZE_BYTES: Final = 128 * 1024 * 1024
"""Size of the files that small ones become."""
RETENTION_HOURS: Final = 7 * 24
"""How long removed files stay for readers: Delta's own default."""
