"""Tests of one node without an event loop, and of three on a network in memory."""
