"""pykraft inside a Python program: a node of a quorum, its listeners, and the classes for their records.

Start with `Node`; `configure` makes its configuration. From outside a quorum, `Observer` reads what it commits, and
`Admin` describes and changes its members. `pykraft.errors` has the exceptions.
"""

from pykraft.client.configure import configure, voter_set
from pykraft.client.leadership import ClaimAdapter, ClaimListener, LeaderAndEpoch
from pykraft.client.listener import Listener, StableRecords
from pykraft.client.node import Node
from pykraft.client.reader import Batch, Reader
from pykraft.client.remote.admin import Admin
from pykraft.client.remote.bootstrap import parse_bootstrap
from pykraft.client.remote.observer import Observer, Start
from pykraft.client.remote.quorum import Quorum
from pykraft.client.serde import Serde, bytes_serde, int_serde, json_serde, text_serde
from pykraft.client.state_reader import StateReader
from pykraft.client.until_signal import until_signal
from pykraft.host.producers import Committed

__all__ = [
    "Admin",
    "Batch",
    "ClaimAdapter",
    "ClaimListener",
    "Committed",
    "LeaderAndEpoch",
    "Listener",
    "Node",
    "Observer",
    "Quorum",
    "Reader",
    "Serde",
    "StableRecords",
    "Start",
    "StateReader",
    "bytes_serde",
    "configure",
    "int_serde",
    "json_serde",
    "parse_bootstrap",
    "text_serde",
    "until_signal",
    "voter_set",
]
