"""A follower can reach its leader, or it is none."""

from __future__ import annotations

import pytest

from pykraft.core.state import Follower
from pykraft.types import NO_LISTENERS, NodeId
from tests.core.replicas import EPOCH


def test_a_leader_without_endpoints_cannot_be_followed() -> None:
    with pytest.raises(AssertionError):
        Follower(epoch=EPOCH, leader_id=NodeId(2), leader_listeners=NO_LISTENERS, fetch_deadline_ms=0)
