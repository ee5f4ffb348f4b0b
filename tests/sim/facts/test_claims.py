"""Every epoch that a stranger named is one of its claims."""

from __future__ import annotations

from pykraft.sim.facts.claims import Claims


def test_a_stranger_that_names_an_epoch_has_spoken() -> None:
    claims = Claims()
    assert not claims.is_any
    claims.epochs.add(7)
    assert claims.is_any


def test_a_flipped_bit_claims_something() -> None:
    assert Claims(is_flipped=True).is_any
