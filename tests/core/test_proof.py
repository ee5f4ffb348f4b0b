"""When enough voters have told their epoch: every majority with the replica contains one of them."""

from itertools import combinations

import pytest

from pykraft.core.proof import Survey
from pykraft.core.quorum import majority_of
from pykraft.types import NodeId


def survey(others: int, told: int) -> Survey:
    ids = [NodeId(node_id) for node_id in range(2, others + 2)]
    return Survey(has_fresh_id=False, others=frozenset(ids), told=frozenset(ids[:told]))


@pytest.mark.parametrize("others", range(7))
def test_they_are_enough_when_every_majority_with_this_replica_has_one_of_them(others: int) -> None:
    for told in range(others + 1):
        one = survey(others, told)
        assert one.others is not None
        majorities = combinations(sorted(one.others), majority_of(others + 1) - 1)
        assert one.is_blocking == all(one.told & set(majority) for majority in majorities)


def test_who_has_nobody_to_ask_has_heard_all_but_not_who_does_not_know_whom() -> None:
    assert survey(0, 0).has_all_told
    assert survey(0, 0).are_all_empty
    unknown = Survey(has_fresh_id=False)
    assert (unknown.has_all_told, unknown.are_all_empty, unknown.is_blocking) == (False, False, False)
    assert unknown.unheard == frozenset()
    assert survey(2, 2).has_all_told
    assert not survey(2, 2).are_all_empty
    assert survey(2, 1).unheard == {3}
