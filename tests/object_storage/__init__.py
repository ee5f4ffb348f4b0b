"""Tests of reading logs from object storage."""
