"""What a node logs about a busy machine, which other tests must tolerate."""

HELD_UP = "the event loop was blocked for "


def without_lag(said: str) -> str:
    """Standard error without the lines that tell of a loop that was held up: that is the machine's fault."""
    return "".join(line for line in said.splitlines(keepends=True) if HELD_UP not in line)
