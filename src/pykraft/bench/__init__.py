"""Measuring quorums of processes against each other: ours, and Kafka's TestRaftServer."""
