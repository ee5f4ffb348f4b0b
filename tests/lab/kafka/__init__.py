"""Tests of `lab.kafka`; marked ``kafka`` where they start a JVM."""
