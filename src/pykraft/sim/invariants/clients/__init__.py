"""Oracles of what clients, listeners and operators are told."""
