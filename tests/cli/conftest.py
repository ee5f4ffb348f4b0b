"""What all tests of commands share: the log of the process is as it was before."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def log_is_put_back() -> Iterator[None]:
    """``pykraft server`` sets the log up for its process, and here a test's process lives on without its output."""
    logger = logging.getLogger("pykraft")
    before = (list(logger.handlers), logger.level, logger.propagate)
    yield
    logger.handlers, logger.level, logger.propagate = before
