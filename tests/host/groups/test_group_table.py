"""The state machine of the groups.

Source: ours (ADR 230).
"""

from pykraft.host.groups.group_table import (
    CommittedOffset,
    GroupTable,
    KeptGroup,
    changed_group,
    changed_offsets,
    deleted_group,
)
from pykraft.protocol.records import decode_group_batch, encode_group_batch


def apply(table: GroupTable, *values: bytes) -> None:
    for body in decode_group_batch(encode_group_batch(values, timestamp_ms=1)[1]):
        table.apply(body)


def at(offset: int, metadata: str = "") -> CommittedOffset:
    return CommittedOffset(offset=offset, leader_epoch=4, metadata=metadata, commit_ms=1)


def test_each_record_changes_one_group_and_an_image_makes_the_same_state() -> None:
    table = GroupTable()
    apply(
        table, changed_offsets("g", {("t", 0): at(1, "long"), ("u", 0): at(2)}), changed_offsets("h", {("t", 0): at(3)})
    )
    group = KeptGroup(type="consumer", generation=7, protocol_type="consumer", protocol="p", empty_since_ms=5)
    apply(table, changed_group("g", group), changed_offsets("g", {("u", 0): None, ("t", 0): at(4, "m")}))
    group.offsets[("t", 0)] = at(4, "m")
    other = KeptGroup(offsets={("t", 0): at(3)})
    assert table.groups == {"g": group, "h": other}
    assert table.size_bytes == len("g") + len("t") + len("m") + len("h") + len("t")
    twin = GroupTable()
    apply(twin, *table.image())
    assert (twin.groups, twin.size_bytes) == (table.groups, table.size_bytes)
    apply(table, deleted_group("g"), deleted_group("none"))
    assert table.groups == {"h": other}
    apply(table, deleted_group("h"))
    assert (table.groups, table.size_bytes) == ({}, 0)
