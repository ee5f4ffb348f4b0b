"""pykraft inside a Python program: a node of a quorum, its listeners, and the records they speak of.

`Node` is the place to begin; `configure` makes its configuration. What raises: `pykraft.errors`.
"""

from pykraft.client.configure import configure, voter_set
from pykraft.client.leadership import ClaimAdapter, ClaimListener, LeaderAndEpoch
from pykraft.client.listener import Listener
from pykraft.client.node import Node
from pykraft.client.reader import Batch, Reader
from pykraft.client.serde import Serde, bytes_serde, int_serde, json_serde, text_serde
from pykraft.host.producers import Committed

__all__ = [
    "Batch",
    "ClaimAdapter",
    "ClaimListener",
    "Committed",
    "LeaderAndEpoch",
    "Listener",
    "Node",
    "Reader",
    "Serde",
    "bytes_serde",
    "configure",
    "int_serde",
    "json_serde",
    "text_serde",
    "voter_set",
]
