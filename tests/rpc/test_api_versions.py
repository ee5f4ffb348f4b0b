"""The versions that a node offers, and the version that two nodes have in common."""

import pytest

from pykraft.core.messages import ApiVersionsRequest, ApiVersionsResponse
from pykraft.errors import ErrorCode, ProtocolError
from pykraft.protocol import api
from pykraft.protocol.schema import Versions
from pykraft.rpc import codec
from pykraft.rpc.api_versions import (
    answer_from_wire,
    common_version,
    request_to_wire,
    response_from_wire,
    response_to_wire,
)
from pykraft.rpc.context import RpcContext
from pykraft.types import NodeId, Uuid, VersionRange

CONTEXT = RpcContext(cluster_id="c", topic_name="t", topic_id=Uuid(bytes(15) + b"\1"), default_listener="CONTROLLER")

SERVED = {api.ApiKey.VOTE: Versions(0, 2), api.ApiKey.FETCH: Versions(4, 18)}


def test_an_answer_lists_apis_by_key_and_is_read_back() -> None:
    for version in range(6):
        body = response_to_wire(version, SERVED, VersionRange(0, 1))
        raw = b"".join(api.encode_response(api.ApiKey.API_VERSIONS, version, 1, body))
        found = api.decode_response(api.ApiKey.API_VERSIONS, version, raw)[1]
        assert [one["api_key"] for one in found["api_keys"]] == [1, 52]
        assert response_from_wire(found) == {52: Versions(0, 2), 1: Versions(4, 18)}


@pytest.mark.conformance(147)
def test_a_feature_from_level_0_is_shown_from_version_4_on() -> None:
    feature = {"name": "kraft.version", "min_version": 0, "max_version": 1}
    assert response_to_wire(4, SERVED, VersionRange(0, 1))["supported_features"] == [feature]
    assert "supported_features" not in response_to_wire(3, SERVED, VersionRange(0, 1))
    assert "supported_features" in response_to_wire(3, SERVED, VersionRange(1, 1))


@pytest.mark.conformance(147)
@pytest.mark.parametrize(("version", "level", "is_shown"), [(2, 1, False), (3, 0, False), (3, 1, True), (5, 1, True)])
def test_the_level_in_force_is_shown_once_there_is_one(version: int, level: int, is_shown: bool) -> None:
    body = response_to_wire(version, SERVED, VersionRange(0, 1), level)
    raw = b"".join(api.encode_response(api.ApiKey.API_VERSIONS, version, 1, body))
    found = api.decode_response(api.ApiKey.API_VERSIONS, version, raw)[1].get("finalized_features", [])
    expected = [{"name": "kraft.version", "min_version_level": level, "max_version_level": level}]
    assert found == (expected if is_shown else [])


def test_a_node_that_is_never_to_vote_shows_no_levels() -> None:
    assert response_to_wire(5, SERVED, None, 1) == {"api_keys": response_to_wire(5, SERVED, None)["api_keys"]}
    assert answer_from_wire({"error_code": 0, "supported_features": []}, CONTEXT).kraft_version is None


def test_a_request_says_who_we_are() -> None:
    raw = b"".join(api.encode_request(api.ApiKey.API_VERSIONS, 4, 1, None, request_to_wire("0.1")))
    assert b"\x08pykraft\x040.1" in raw


def test_an_error_means_that_we_cannot_talk() -> None:
    with pytest.raises(ProtocolError, match="answered with error 35") as caught:
        response_from_wire({"error_code": 35, "api_keys": []})
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize(("theirs", "expected"), [((0, 2), 2), ((0, 9), 2), ((0, 1), 1), ((2, 5), 2), ((0, 0), 0)])
def test_the_highest_common_version(theirs: tuple[int, int], expected: int) -> None:
    assert common_version(api.ApiKey.VOTE, {52: Versions(*theirs)}) == expected


@pytest.mark.parametrize("offered", [{}, {1: Versions(19, 30)}, {1: Versions(0, 3)}])
def test_no_common_version(offered: dict[int, Versions]) -> None:
    with pytest.raises(ProtocolError, match="no common version of FETCH: ours are 4-18, the peer's") as caught:
        common_version(api.ApiKey.FETCH, offered)
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_what_we_offer_ourselves_is_common() -> None:
    for key, versions in api.API_VERSIONS.items():
        assert common_version(key, {int(key): versions}) == versions.max


@pytest.mark.conformance(131)
def test_the_core_hears_the_levels_that_a_voter_to_be_supports() -> None:
    raw = b"".join(api.encode_response(api.ApiKey.API_VERSIONS, 4, 1, response_to_wire(4, SERVED, VersionRange(0, 1))))
    answer = codec.decode_answer(api.ApiKey.API_VERSIONS, 4, raw, CONTEXT)
    assert answer.message == ApiVersionsResponse(error=0, kraft_version=VersionRange(0, 1))
    old = b"".join(api.encode_response(api.ApiKey.API_VERSIONS, 3, 1, response_to_wire(3, SERVED, VersionRange(0, 1))))
    silent = codec.decode_answer(api.ApiKey.API_VERSIONS, 3, old, CONTEXT)
    assert silent.message == ApiVersionsResponse(error=0)
    question = ApiVersionsRequest(node_id=NodeId(7))
    for version, named in ((5, ("c", 7)), (4, (None, -1))):
        asked = b"".join(bytes(part) for part in codec.encode_request(question, version, 1, "us", CONTEXT))
        body = api.decode_request_body(api.decode_request_header(asked), asked)
        assert (body["client_software_name"], body["cluster_id"], body["node_id"]) == ("pykraft", *named)
