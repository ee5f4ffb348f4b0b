"""Text for people: counts, durations, suggestions, tables."""
