"""Spark sessions: Java, its process, and what workers need."""
