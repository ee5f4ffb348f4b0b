"""Runs a real Apache Kafka on this machine: its jars, its Java, and its raft server as nodes of a local quorum."""
