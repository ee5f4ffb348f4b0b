"""Oracles of what disks hold, lose and damage."""
