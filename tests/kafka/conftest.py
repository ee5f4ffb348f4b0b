"""Fixtures of tests against a real Kafka."""

import pytest

from lab.kafka.java import Kafka
from tests.kafka.archive import find_kafka
from tests.processes.conftest import children

__all__ = ["children", "kafka"]


@pytest.fixture(scope="session")
def kafka() -> Kafka:
    """Kafka 4.3.1; a machine that cannot run it fails the tests that ask for it."""
    return find_kafka()
