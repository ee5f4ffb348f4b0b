"""Tests of the metadata log's records, and the generator of their tables."""
