"""What is in `pykraft.local.kafka.java` now, under the name that tests know."""

from pykraft.local.kafka.java import Finished, Kafka, Main, find_java

__all__ = ["Finished", "Kafka", "Main", "find_java"]
