"""Oracles of voter sets and of requests to change them."""
