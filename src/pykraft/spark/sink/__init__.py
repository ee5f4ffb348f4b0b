"""The sink ``pykraft``: rows of a DataFrame become records of a live quorum, each exactly once (ADR 097)."""
