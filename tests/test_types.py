"""The shared types: matching, order, and the text of UUIDs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft import types
from pykraft.errors import UsageError

ONE, TWO = types.Uuid(bytes(15) + b"\1"), types.Uuid(bytes(15) + b"\2")
LISTENERS = types.Listeners((("CONTROLLER", types.Endpoint("localhost", 9093)), ("OTHER", types.Endpoint("::1", 9094))))


def key(node_id: int, directory_id: types.Uuid | None = None) -> types.ReplicaKey:
    return types.ReplicaKey(types.NodeId(node_id), directory_id)


def voter(node_id: int, directory_id: types.Uuid | None = None, listeners: types.Listeners = LISTENERS) -> types.Voter:
    return types.Voter(key=key(node_id, directory_id), listeners=listeners)


@given(st.binary(min_size=16, max_size=16))
def test_a_uuid_survives_its_text(raw: bytes) -> None:
    text = types.uuid_text(types.Uuid(raw))
    assert len(text) == 22
    assert types.uuid_parse(text) == raw


def test_the_text_of_a_uuid_is_kafkas() -> None:
    assert types.uuid_text(types.ZERO_UUID) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert types.uuid_text(types.Uuid(b"\xff" * 16)) == "_____________________w"
    assert types.uuid_text(types.Uuid(b"\xfb\xef" * 8)) == "--_77_vv--_77_vv--_77w"


@pytest.mark.parametrize("text", ["", "A", "A" * 21, "A" * 23, "A" * 21 + "*", "+" * 22, "A" * 22 + "==", "é" * 22])
def test_other_texts_are_no_uuid(text: str) -> None:
    with pytest.raises(UsageError, match="is not a Kafka UUID"):
        types.uuid_parse(text)


@pytest.mark.conformance(94)
def test_a_key_without_a_directory_matches_any_and_only_that_way_around() -> None:
    assert key(1).matches(key(1, ONE))
    assert not key(1, ONE).matches(key(1))
    assert key(1, ONE).matches(key(1, ONE))
    assert not key(1, ONE).matches(key(1, TWO))
    assert not key(1).matches(key(2))


def test_a_log_is_at_least_another_by_epoch_first() -> None:
    def place(offset: int, epoch: int) -> types.OffsetAndEpoch:
        return types.OffsetAndEpoch(types.Offset(offset), types.Epoch(epoch))

    assert place(1, 2).is_at_least(place(9, 1))
    assert not place(9, 1).is_at_least(place(1, 2))
    assert place(5, 1).is_at_least(place(5, 1))
    assert not place(4, 1).is_at_least(place(5, 1))


def test_an_endpoint_is_written_so_that_its_port_can_be_told() -> None:
    assert str(types.Endpoint("localhost", 9093)) == "localhost:9093"
    assert str(types.Endpoint("::1", 9093)) == "[::1]:9093"


@pytest.mark.conformance(98)
def test_a_listener_is_found_in_any_case() -> None:
    assert LISTENERS.get("controller") == types.Endpoint("localhost", 9093)
    assert LISTENERS.get("NONE") is None
    assert (len(LISTENERS), [name for name, _ in LISTENERS]) == (2, ["CONTROLLER", "OTHER"])


@pytest.mark.conformance(141)
def test_a_voter_set_is_sorted_and_the_last_of_two_wins() -> None:
    voters = types.VoterSet.of([voter(3), voter(1, ONE), voter(1, TWO)])
    assert voters.ids == (1, 3)
    assert voters.get(types.NodeId(1)) == voter(1, TWO)
    assert len(voters) == 2


@pytest.mark.parametrize("ids", [(2, 1), (1, 1)])
def test_a_voter_set_out_of_order_is_our_bug(ids: tuple[int, int]) -> None:
    with pytest.raises(AssertionError):
        types.VoterSet(tuple(voter(node_id) for node_id in ids))


@pytest.mark.conformance(141)
def test_membership_is_by_key() -> None:
    voters = types.VoterSet.of([voter(1, ONE), voter(2)])
    assert voters.is_voter(key(1, ONE))
    assert not voters.is_voter(key(1, TWO))
    assert voters.is_voter(key(2, TWO))
    assert not voters.is_voter(key(3))


@pytest.mark.conformance(141)
def test_who_is_not_in_the_set_has_no_listeners() -> None:
    voters = types.VoterSet.of([voter(1)])
    assert voters.listeners(types.NodeId(1)) == LISTENERS
    assert len(voters.listeners(types.NodeId(2))) == 0
    assert len(voters.listeners(None)) == 0


@pytest.mark.conformance(141)
def test_an_only_voter_is_alone_and_itself() -> None:
    assert types.VoterSet.of([voter(1, ONE)]).is_only_voter(key(1, ONE))
    assert not types.VoterSet.of([voter(1, ONE)]).is_only_voter(key(1, TWO))
    assert not types.VoterSet.of([voter(1), voter(2)]).is_only_voter(key(1))
    assert not types.VoterSet().is_only_voter(key(1))


@pytest.mark.conformance(141)
def test_a_voter_set_is_changed_by_one_member() -> None:
    two = types.VoterSet.of([voter(2, TWO), voter(1, ONE)])
    assert two.with_added(voter(3, ONE)) == types.VoterSet.of([voter(1, ONE), voter(2, TWO), voter(3, ONE)])
    assert two.with_added(voter(2, ONE)) is None, "an id is there once, whatever its directory"
    assert two.without(key(2, TWO)) == types.VoterSet.of([voter(1, ONE)])
    assert two.without(key(2, ONE)) is None
    assert two.without(key(2)) is None
    assert two.without(key(3, ONE)) is None
    assert types.VoterSet.of([voter(1, ONE)]).without(key(1, ONE)) is None, "a set is never empty"


@pytest.mark.conformance(141)
def test_an_entry_is_replaced_by_what_its_key_matches() -> None:
    other = types.Listeners((("CONTROLLER", types.Endpoint("h", 1)),))
    known = types.VoterSet.of([voter(1, ONE), voter(2)])
    assert known.with_updated(voter(1, ONE, other)) == types.VoterSet.of([voter(1, ONE, other), voter(2)])
    assert known.with_updated(voter(2, TWO)) == types.VoterSet.of([voter(1, ONE), voter(2, TWO)]), (
        "it learns its directory"
    )
    assert known.with_updated(voter(1, TWO)) is None
    assert known.with_updated(voter(3, ONE)) is None


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1", "fe80::1%eth0", "bücher.example", "x" * 255])
def test_a_host_may_be_a_name_or_a_number(host: str) -> None:
    assert types.Endpoint(host, 1).can_be_dialed
    assert types.Endpoint(host, 65_535).can_be_dialed
    assert not any(types.Endpoint(host, port).can_be_dialed for port in (-1, 0, 65_536, 2**31 - 1))


@pytest.mark.parametrize("host", ["", "x" * 256, "127.0.0.1\0", "a b", "a\n", "\x1b[2J", "\u2028", "\ud800"])
def test_what_no_host_can_be_is_not_dialed(host: str) -> None:
    assert not types.Endpoint(host, 9_092).can_be_dialed
