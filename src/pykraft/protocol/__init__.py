"""Kafka's bytes: primitives, message schemas, frames, record batches. Pure functions, without any rule of Raft."""
