"""Logs in object storage: read through a file system library under the same interface as files on a disk."""
