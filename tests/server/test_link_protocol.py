"""What asyncio calls reaches the link."""

from typing import Any, cast

import pytest

from pykraft.server.link_protocol import LinkProtocol


class Link:
    """Notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []
        self.room = bytearray(3)

    def get_buffer(self) -> bytearray:
        return self.room

    def __getattr__(self, name: str) -> Any:
        return lambda *given: self.heard.append((name, *given))


@pytest.mark.parametrize(
    ("event", "given", "heard"),
    [
        ("connection_made", ("a transport",), ("a transport",)),
        ("buffer_updated", (3,), (3,)),
        ("connection_lost", (OSError(),), ()),
        ("pause_writing", (), ()),
        ("resume_writing", (), ()),
    ],
)
def test_each_event_is_the_links(event: str, given: tuple[object, ...], heard: tuple[object, ...]) -> None:
    link = Link()
    getattr(LinkProtocol(cast(Any, link)), event)(*given)
    assert link.heard == [(event, *heard)]


def test_bytes_arrive_where_the_link_wants_them() -> None:
    link = Link()
    assert LinkProtocol(cast(Any, link)).get_buffer(-1) is link.room
