"""Oracles of elections: epochs, votes, and who leads."""
