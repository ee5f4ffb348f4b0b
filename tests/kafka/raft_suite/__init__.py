"""Kafka's own tests of its raft client, run against pykraft: see `tests.kafka.raft_suite.__main__`."""
