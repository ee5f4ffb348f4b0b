"""The demo: a quorum under load, a killed leader, and Spark checking every acknowledged record."""
