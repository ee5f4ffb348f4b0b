"""Oracles of voter sets and of those who change them."""
