"""Tests with real processes: `pykraft server` nodes that are started, killed, restarted and fed garbage."""
