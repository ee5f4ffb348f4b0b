"""Replicated state machines: commands with results, applied once on every node of a quorum.

`Replicated` runs a `StateMachine` on top of `pykraft.client.Node`. `pykraft.errors` has the exceptions.
"""

from pykraft.machine.asgi import AppNode, worker_number
from pykraft.machine.membership import Membership
from pykraft.machine.methods import ReplicatedObject, perform, replicated
from pykraft.machine.replicated import Replicated, ThreadedReplicated
from pykraft.machine.state_machine import Applied, StateMachine, dataclass_serde

__all__ = [
    "AppNode",
    "Applied",
    "Membership",
    "Replicated",
    "ReplicatedObject",
    "StateMachine",
    "ThreadedReplicated",
    "dataclass_serde",
    "perform",
    "replicated",
    "worker_number",
]
