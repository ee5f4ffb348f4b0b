"""How much of the machine other programs use, right before a run.

The load average would not tell: its last minute is mostly the run before.

Source: ``proc(5)``, /proc/stat.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

STAT: Final = Path("/proc/stat")
LOOK_S: Final = 0.5
IDLE: Final = (3, 4)
"""Of the times in a line: idle, and waiting for a disk."""


def busy_cores(stat: Path = STAT, look_s: float = LOOK_S) -> float:
    """Cores that are in use, on average of half a second; where the system does not tell, the load average."""
    try:
        before = _ticks(stat)
        time.sleep(look_s)
        after = _ticks(stat)
    except OSError:
        return os.getloadavg()[0]
    passed = [later - earlier for earlier, later in zip(before, after, strict=True)]
    all_ticks = sum(passed)
    busy_ticks = all_ticks - sum(passed[at] for at in IDLE)
    return busy_ticks / all_ticks * (os.cpu_count() or 1) if all_ticks else 0.0


def _ticks(stat: Path) -> list[int]:
    """Times of all cores together: user, nice, system, idle, waiting, interrupts (two) and stolen."""
    words = stat.read_text(encoding="ascii").splitlines()[0].split()
    return [int(word) for word in words[1:9]]
