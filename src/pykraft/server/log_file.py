"""A log file of bounded size, for a node that nobody else keeps the lines of.

When the file is full it is renamed to NAME.1, NAME.1 to NAME.2 and so on, and the oldest is deleted. Descriptors 1 and
2 always point to the current file, so what Python, a library or the C runtime prints goes there, too.

Invariant: a file that cannot be renamed or written never stops the node, and leaves no traceback. The log then grows
on, or misses lines, until that is mended.

Source: Python's ``RotatingFileHandler``, Kafka's ``RollingFileAppender``.
"""

import logging
import os
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Final

from pykraft.errors import UsageError

STANDARD_OUTPUT_AND_ERROR: Final = (1, 2)


class LogFile(RotatingFileHandler):
    """A handler for `logging` that writes to a file and to its successors."""

    def __init__(
        self,
        path: Path,
        *,
        size_bytes_max: int,
        files_max: int,
        descriptors: tuple[int, ...] = STANDARD_OUTPUT_AND_ERROR,
    ) -> None:
        """Append to ``path``. At most ``files_max`` files exist, this one included, two at least.

        Errors: UsageError if the file cannot be written.
        """
        self._descriptors = descriptors
        try:
            super().__init__(path, maxBytes=size_bytes_max, backupCount=max(1, files_max - 1), encoding="utf-8")
        except OSError as error:
            raise UsageError(
                f"--log-file {path}: {error.strerror}: name a file in a folder that may be written"
            ) from error

    def doRollover(self) -> None:  # noqa: N802 - as the standard library has it
        try:
            super().doRollover()
        except OSError:
            # A file cannot be renamed, for example because the folder was made read-only: go on with the present one.
            if self.stream is None:
                self.stream = self._open()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - as the standard library has it
        """Drop a line that cannot be written: its traceback would go to the same full disk, or into the log."""

    def _open(self) -> TextIOWrapper:
        stream = super()._open()
        for descriptor in self._descriptors:
            os.dup2(stream.fileno(), descriptor)
        return stream
