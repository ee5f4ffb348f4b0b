"""The known damage: each place once, and at most so many.

Source: ours (ADR 012); Raft paper §5.4.3 (Leader Completeness).
"""

from pykraft.core.quarantine import DAMAGES_MAX, Quarantine
from pykraft.types import Epoch
from tests.core.said import damage


def test_each_place_is_remembered_once_and_no_more_than_a_bound() -> None:
    known = Quarantine(epoch=Epoch(1), until_offset=None, damages=(damage(3),), is_cut=True)
    assert known.with_damages(damage(3), damage(5)) == (damage(3), damage(5))
    assert len(known.with_damages(*(damage(offset) for offset in range(2 * DAMAGES_MAX)))) == DAMAGES_MAX
