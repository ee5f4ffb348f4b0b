"""A changed copy is what `dataclasses.replace` makes.

Source: CPython's ``dataclasses.replace``.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from pykraft.core.changed import changed
from pykraft.core.state import Follower
from pykraft.types import NO_LISTENERS, Endpoint, Epoch, Listeners, NodeId, Offset

FOLLOWER = Follower(
    epoch=Epoch(3),
    leader_id=NodeId(2),
    leader_listeners=Listeners((("CONTROLLER", Endpoint("localhost", 9093)),)),
    fetch_deadline_ms=2_000,
    update_deadline_ms=1_000,
    empty_answers=1,
)


def test_a_copy_has_the_changed_fields_and_all_others() -> None:
    changes = {"high_watermark": Offset(7), "has_fetched": True}
    copy = changed(FOLLOWER, **changes)
    assert copy == replace(FOLLOWER, high_watermark=Offset(7), has_fetched=True)
    assert copy is not FOLLOWER
    assert changed(FOLLOWER) == FOLLOWER


@pytest.mark.interpreted
def test_a_copy_is_checked_as_any_other_value() -> None:
    with pytest.raises(AssertionError, match="can reach its leader"):
        changed(FOLLOWER, leader_listeners=NO_LISTENERS)
    with pytest.raises(TypeError, match="no_field"):
        changed(FOLLOWER, no_field=1)
