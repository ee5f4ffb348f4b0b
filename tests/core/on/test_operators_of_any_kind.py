"""Requests about voters, levels and leadership with any values, in any order: each gets an answer.

One that ended a leader could be sent to the next one, too: an operator's slip would be the end of the quorum.

Source: ours: no request from outside ends a node; KIP-853 §AddRaftVoter, §RemoveRaftVoter and Raft dissertation §3.10
for what the requests ask.
"""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Final

import pytest

from pykraft import types
from pykraft.config import INT32_MAX
from pykraft.core import messages
from pykraft.core.events import RequestReceived
from pykraft.core.on.timer import poll
from pykraft.core.raft import on_request
from pykraft.core.replica import Replica
from pykraft.core.state import Leader
from pykraft.errors import ProtocolError
from tests.core.on.voters.test_voter_changes import dynamic
from tests.core.replicas import LISTENER, NOW, directory, done, follower, later, leader, listeners, replica

STORIES: Final = 400
REQUESTS_MAX: Final = 12


def static() -> Replica:
    """A leader of static voters that have told who they are."""
    made = replica(leader(high_watermark=11))
    assert isinstance(made.state, Leader)
    made.state.volatile_voters = types.VoterSet.of(
        replace(one, kraft_version=types.KRAFT_VERSIONS) for one in made.voters.voters
    )
    return made


def following() -> Replica:
    return replica(follower())


def any_key(rng: Random) -> types.ReplicaKey:
    node_id = rng.choice([-5, -1, 0, 1, 2, 3, 4, INT32_MAX])
    return types.ReplicaKey(types.NodeId(node_id), rng.choice([None, types.ZERO_UUID, *map(directory, (1, 2, 3, 4))]))


def any_listeners(rng: Random) -> types.Listeners:
    elsewhere, nowhere = (
        types.Listeners((("OTHER", types.Endpoint("x", 0)),)),
        types.Listeners(((LISTENER, types.Endpoint("", 0)),)),
    )
    return rng.choice([types.Listeners(), elsewhere, nowhere, *map(listeners, (1, 2, 4))])


def any_request(rng: Random) -> messages.Request:
    timeout_ms = rng.choice([-1, 0, 1, 1_000, INT32_MAX])
    makers: list[Callable[[], messages.Request]] = [
        lambda: messages.AddVoterRequest(
            voter=any_key(rng),
            listeners=any_listeners(rng),
            timeout_ms=timeout_ms,
            ack_when_committed=rng.random() < 0.5,
        ),
        lambda: messages.RemoveVoterRequest(voter=any_key(rng)),
        lambda: messages.UpdateVoterRequest(
            epoch=types.Epoch(rng.choice([-1, 0, 4, 5, 6, INT32_MAX])),
            voter=any_key(rng),
            listeners=any_listeners(rng),
            kraft_version=types.VersionRange(rng.choice([-1, 0, 1, 2]), rng.choice([-1, 0, 1, 2, 32_767])),
        ),
        lambda: messages.UpdateFeaturesRequest(
            kraft_version=rng.choice([-1, 0, 1, 2, 32_767]), validate_only=rng.random() < 0.3
        ),
        lambda: messages.TransferLeadershipRequest(
            target_id=types.NodeId(rng.choice([-1, 0, 1, 2, 3, 4, INT32_MAX])), timeout_ms=timeout_ms
        ),
    ]
    return rng.choice(makers)()


@pytest.mark.parametrize("seed", range(4))
def test_nothing_that_is_asked_ends_a_replica(seed: int) -> None:
    rng = Random(seed)
    for _ in range(STORIES):
        makers: list[Callable[[], Replica]] = [dynamic, static, following]
        made = rng.choice(makers)()
        told: list[messages.Request] = []
        for number in range(rng.randrange(1, REQUESTS_MAX)):
            told.append(any_request(rng))
            try:
                on_request(made, RequestReceived(request_id=number, listener=LISTENER, message=told[-1]), NOW)
            except ProtocolError:
                continue
            except Exception as error:
                error.add_note(f"after {told}")
                raise
            poll(made, later(rng.randrange(500)))
            done(made)
