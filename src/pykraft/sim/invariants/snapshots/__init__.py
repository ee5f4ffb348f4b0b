"""Oracles of snapshots: when they are taken, what they hold, and what is cleaned behind them."""
