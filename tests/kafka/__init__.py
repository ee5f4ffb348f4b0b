"""Tests against a real Apache Kafka 4.3.1, run from plain jars; marked ``kafka`` where they start a JVM."""
