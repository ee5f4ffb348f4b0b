"""pykraft: Apache Kafka's Raft (KRaft) in Python, with Kafka's own bytes on the wire and on disk."""

__version__ = "0.1.0"
