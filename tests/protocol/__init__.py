"""Tests of Kafka's bytes."""
