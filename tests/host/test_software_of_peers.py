"""Which peers turn out to be pykraft, by the APIs that they list.

Source: ADR 079.
"""

from __future__ import annotations

import pytest

from pykraft.host import peers as module
from pykraft.protocol.messages import ApiKey
from tests.host.fakes import endpoint
from tests.host.test_peers import Desk
from tests.rpc.test_connection import ALL


@pytest.mark.parametrize(
    ("own_api", "peer_id", "ours"),
    [
        (ApiKey.TRANSFER_LEADERSHIP, 2, [2]),
        (ApiKey.FORWARD, 2, [2]),
        (ApiKey.TRANSFER_LEADERSHIP, -2, []),
        (None, 2, []),
    ],
)
def test_a_peer_that_serves_an_api_of_pykrafts_own_is_pykraft(
    own_api: ApiKey | None, peer_id: int, ours: list[int]
) -> None:
    desk = Desk()
    desk.send(peer_id=peer_id, to=endpoint(2))
    listed: dict[ApiKey, tuple[int, int]] = {}
    listed |= {key: versions for key, versions in ALL.items() if key not in module.PYKRAFTS_OWN}
    if own_api is not None:
        listed[own_api] = (0, 0)
    desk.connect(listed)
    assert desk.ours == ours
