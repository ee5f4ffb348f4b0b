"""Spark's own Kafka connector against a quorum of ours, in an environment of its own."""
