"""Lessons: short worlds whose events are explained one after the other, on the page of the run."""
