"""A node with older versions is understood, and gets no pre-vote requests."""

from __future__ import annotations

from collections.abc import Sequence

from pykraft.host.ports import ConnectionId
from pykraft.protocol.api import decode_request_header
from pykraft.protocol.messages import ApiKey
from pykraft.sim.faults.version import VersionFaults
from pykraft.sim.machine.dialect import KAFKA_3_8, KAFKA_3_9
from pykraft.sim.machine.network import FRAME_LENGTH_SIZE_BYTES
from pykraft.types import Buffer
from tests.sim.faults.worlds import harm_to, told
from tests.sim.worlds import calm_world, run_until, started_world


def test_a_node_is_replaced_by_an_older_program_and_upgraded_again() -> None:
    world = started_world()
    harm = harm_to(world)
    family = VersionFaults(harm)
    for _ in range(9):
        assert family.kinds["old version"]()
    assert not world.facts.members.has_pre_votes
    assert told(world, "is replaced by a program that speaks like Kafka 3.")
    assert told(world, "is upgraded")
    assert harm.counts["old version"] >= 3
    run_until(world, lambda: world.facts.newest_leader() is not None and len(world.facts.hosts()) == 3)


def test_old_nodes_ask_in_old_words() -> None:
    world = calm_world()
    versions: set[int] = set()
    send = world.network.send

    def listen(connection: ConnectionId, parts: Sequence[Buffer]) -> None:
        frame = b"".join(parts)[FRAME_LENGTH_SIZE_BYTES:]
        if frame.startswith(ApiKey.VOTE.to_bytes(2, "big")):
            versions.add(decode_request_header(frame).api_version)
        send(connection, parts)

    world.network.send = listen  # type: ignore[method-assign]
    for node, dialect in zip(world.nodes.values(), (KAFKA_3_8, KAFKA_3_9, None), strict=True):
        node.dialect = dialect
        node.start()
    run_until(world, lambda: world.facts.newest_leader() is not None)
    assert versions
    assert max(versions) <= 1
