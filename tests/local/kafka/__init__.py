"""Tests of `pykraft.local.kafka`; marked ``kafka`` where they start a JVM."""
