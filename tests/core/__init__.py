"""Tests of ``pykraft.core``: small ones for each module, one machine for all of it; stories are in ``scenarios``."""
