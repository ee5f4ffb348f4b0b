"""Connections that break in the scenario files."""

from tests.scenarios.world import UNAVAILABLE, World


def reset(world: World, source: int, target: int) -> None:
    """Break the connection that the source dialed: its newest request is lost, or the answer to it."""
    asked = world.nodes[source].asks.pop(target)
    ends = {source, target}
    world.wire = [
        message
        for message in world.wire
        if {message.source, message.target} != ends or message.correlation_id != asked.correlation_id
    ]
    world.fail(asked, UNAVAILABLE)
