"""Compares quorums of processes: pykraft's, and those of Kafka's TestRaftServer."""
