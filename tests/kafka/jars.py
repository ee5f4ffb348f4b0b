"""What is in `pykraft.local.kafka.jars` now, under the name that tests know."""

from pykraft.local.kafka.jars import KAFKA_VERSION, LOCKED, KafkaUnavailableError, cache_folder, ensure_jars, read_sums

__all__ = ["KAFKA_VERSION", "LOCKED", "KafkaUnavailableError", "cache_folder", "ensure_jars", "read_sums"]
