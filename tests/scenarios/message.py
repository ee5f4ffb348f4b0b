"""What is on the wire between the cores of a scenario."""

from dataclasses import dataclass

from pykraft.core import messages
from pykraft.types import Io


@dataclass(kw_only=True)
class Message:
    """One message on its way; ``peer_id`` is what the asking node calls the asked one (a bootstrap server: -2, ...)."""

    source: int
    target: int
    peer_id: int
    correlation_id: int
    body: messages.Request | messages.Response
    is_request: bool
    after: Io


def link_of(text: str) -> tuple[int, int]:
    """Source and target of a link that a scenario names: ``1->2``."""
    source, target = text.split("->")
    return int(source), int(target)


def is_meant(message: Message, argument: str) -> bool:
    """True when a scenario means this message: all, those to a node, or those on a link."""
    if "->" in argument:
        return (message.source, message.target) == link_of(argument)
    return argument in ("all", str(message.target))
