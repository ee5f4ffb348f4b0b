"""A follower that campaigns while it is fed is found."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pykraft.protocol.messages import ApiKey
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.heard_leader import FedFollowersFollow
from tests.sim.invariants.fakes import node, view, world


def fed(slice_us: int, told_us: int = -1) -> Any:
    made = node(2, role="prospective")
    made.process.wiretap = SimpleNamespace(slice_us={1: slice_us}, asked_us={ApiKey.END_QUORUM_EPOCH: told_us})
    return made


def campaigns(who: Any, role: str = "prospective", epoch: int = 1) -> None:
    FedFollowersFollow(world(now_us=1_000_000)).changed(who, view(leader_id=1), view(role, epoch))


def test_a_silent_leader_and_one_that_gives_up_are_reasons() -> None:
    campaigns(fed(800_000))
    campaigns(fed(999_000, told_us=950_000))
    campaigns(fed(999_000), role="unattached", epoch=2)
    campaigns(node(2))


def test_a_campaign_in_the_midst_of_a_download_is_found() -> None:
    with pytest.raises(ViolationError, match="node 2 takes leader 1 of epoch 1 for silent"):
        campaigns(fed(900_000))
