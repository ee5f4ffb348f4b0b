"""The commands that only a clone has."""
