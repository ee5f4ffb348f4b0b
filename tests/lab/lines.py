"""The lines that a command of the laboratory reports: it can be imported without pyspark."""


class Lines:
    """What was told."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.passing: list[str] = []

    def __call__(self, text: str, *, is_passing: bool = False) -> None:
        (self.passing if is_passing else self.stages).append(text)
