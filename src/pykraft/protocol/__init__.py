"""Kafka's bytes: primitives, message schemas, frames, record batches. Pure; knows no rule of Raft."""
