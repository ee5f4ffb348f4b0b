"""The error that an oracle raises when what must not happen has happened.

Source: Kafka ``RaftEventSimulationTest``, whose checks are assertions.
"""


class ViolationError(AssertionError):
    """An invariant does not hold: which one, and what was seen."""

    def __init__(self, invariant: str, seen: str) -> None:
        super().__init__(f"{invariant}: {seen}")
        self.invariant = invariant
