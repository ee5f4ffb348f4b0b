"""Tests of ``pykraft.core``: for each module, and a state machine for the whole; stories are in ``scenarios``."""
