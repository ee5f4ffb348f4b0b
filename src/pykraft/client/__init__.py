"""pykraft inside a Python program: a node of a quorum, its listeners, and the classes for their records.

Start with `Node`; `configure` makes its configuration. From outside a quorum, `Observer` reads what it commits, and
`Admin` describes and changes its members. `pykraft.errors` has the exceptions. Classes are imported when they are first
used: whoever reads a quorum from outside needs no node, whose modules take as long to import as everything else.
"""

from importlib import import_module
from typing import TYPE_CHECKING

# A module of the same name would be found in their place, once somebody has imported it.
from pykraft.client.configure import configure, voter_set

if TYPE_CHECKING:  # slow to import
    from pykraft.client.arguments import parse_bootstrap
    from pykraft.client.discovery import discover
    from pykraft.client.leadership import ClaimAdapter, ClaimListener, LeaderAndEpoch
    from pykraft.client.life import until_signal
    from pykraft.client.listener import Listener, StableRecords
    from pykraft.client.node import Node
    from pykraft.client.reader import Batch, Reader, StateReader
    from pykraft.client.remote.admin import Admin
    from pykraft.client.remote.observer import Observer, Start
    from pykraft.client.remote.quorum import Quorum
    from pykraft.client.serde import Serde, bytes_serde, int_serde, json_serde, text_serde
    from pykraft.host.producers import Committed
    from pykraft.security.acls import AuthorizerSettings
    from pykraft.security.settings import Security

_NAMES = {
    "pykraft.client.discovery": ("discover",),
    "pykraft.client.leadership": ("ClaimAdapter", "ClaimListener", "LeaderAndEpoch"),
    "pykraft.client.listener": ("Listener", "StableRecords"),
    "pykraft.client.node": ("Node",),
    "pykraft.client.reader": ("Batch", "Reader", "StateReader"),
    "pykraft.client.remote.admin": ("Admin",),
    "pykraft.client.arguments": ("parse_bootstrap",),
    "pykraft.client.remote.observer": ("Observer", "Start"),
    "pykraft.client.remote.quorum": ("Quorum",),
    "pykraft.client.serde": ("Serde", "bytes_serde", "int_serde", "json_serde", "text_serde"),
    "pykraft.client.life": ("until_signal",),
    "pykraft.host.producers": ("Committed",),
    "pykraft.security.acls": ("AuthorizerSettings",),
    "pykraft.security.settings": ("Security",),
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names}
"""As above, for when it runs."""

__all__ = [
    "Admin",
    "AuthorizerSettings",
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
    "Security",
    "Serde",
    "StableRecords",
    "Start",
    "StateReader",
    "bytes_serde",
    "configure",
    "discover",
    "int_serde",
    "json_serde",
    "parse_bootstrap",
    "text_serde",
    "until_signal",
    "voter_set",
]


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(module), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
