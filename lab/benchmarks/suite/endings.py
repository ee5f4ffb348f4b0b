"""How a measurement that goes on with its file of results ends: its exit status, and a line that says why."""

from __future__ import annotations

import sys
from collections.abc import Callable

from pykraft.errors import PykraftError


def status_of(measure: Callable[[], object]) -> int:
    """Measure: 0, 130 after Ctrl-C, 2 after an error that the user can mend."""
    try:
        measure()
    except KeyboardInterrupt:
        print("stopped; the same command goes on with what is missing", file=sys.stderr)
        return 130
    except (PykraftError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
