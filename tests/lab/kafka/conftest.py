"""Fixtures of tests against a real Kafka."""

from tests.kafka.conftest import children, kafka

__all__ = ["children", "kafka"]
