"""What ApiVersions tells of kraft.version, and what a voter among Kafka's controllers names and refuses.

Which APIs it lists is tested with frames in `tests.host.test_inbound`.

Source: KIP-511, KIP-584; ADR 078.
"""

import struct

import pytest

from pykraft.errors import ErrorCode
from pykraft.host.controller_answers import SERVED, ControllerApi, answer
from pykraft.host.inbound import ANYWHERE_KEYS, OPERATOR_KEYS, ServedApis
from pykraft.protocol.api import ApiKey, decode_response, encode_request
from pykraft.protocol.messages import API_VERSIONS, APIS, CLIENT_VERSIONS
from tests.host.test_inbound import ONE, Consumers, Desk


def test_who_is_never_to_vote_tells_no_level_of_kraft_version() -> None:
    desk = Desk(kraft_versions=None)
    desk.ask(ApiKey.API_VERSIONS, 4, {})
    ((_, body),) = desk.answers(ApiKey.API_VERSIONS, 4)
    assert (body["error_code"], body["supported_features"]) == (0, [])


@pytest.mark.parametrize("refuses", [True, False])
def test_a_voter_among_kafkas_controllers_answers_not_controller(refuses: bool) -> None:
    desk = Desk(refuses=refuses)
    desk.ask(ApiKey.API_VERSIONS, 4, {})
    ((_, body),) = desk.answers(ApiKey.API_VERSIONS, 4)
    assert (set(SERVED) <= {one["api_key"] for one in body["api_keys"]}) == refuses
    envelope = bytes.fromhex("003a0000000000090001780000000000")  # a header, and a body that nobody reads
    desk.inbound.on_frame(ONE, envelope)
    assert (desk.inbound.violations == 0) == refuses
    assert [data for _, data in desk.ports.sent][-1:] == ([answer(ControllerApi.ENVELOPE, 9)] if refuses else [])
    assert desk.received() == []


@pytest.mark.parametrize(("level", "version", "found"), [(0, 4, []), (1, 2, []), (1, 3, [1]), (1, 4, [1])])
def test_api_versions_tells_the_level_in_force(level: int, version: int, found: list[int]) -> None:
    desk = Desk()
    desk.kraft_version = level
    desk.ask(ApiKey.API_VERSIONS, version, {})
    ((_, body),) = desk.answers(ApiKey.API_VERSIONS, version)
    assert [one["max_version_level"] for one in body.get("finalized_features", [])] == found


def test_api_versions_that_cannot_be_read_is_an_invalid_request() -> None:
    desk = Desk()
    parts = encode_request(ApiKey.API_VERSIONS, 3, 9, None, {})
    desk.inbound.on_frame(ONE, b"".join(bytes(part) for part in parts)[:-1])
    ((_, body),) = desk.answers(ApiKey.API_VERSIONS, 3)
    assert body["error_code"] == ErrorCode.INVALID_REQUEST


def test_a_node_with_a_state_machine_serves_the_forwarding_of_others() -> None:
    served = ServedApis(
        kraft_versions=None,
        kraft_version=lambda: 0,
        operator_listeners=None,
        client_listeners=(),
        refuses_controller_requests=False,
    )
    plain, forwarding = (served.on("CONTROLLER", forwards=forwards) for forwards in (False, True))
    assert {*forwarding} - {*plain} == {ApiKey.FORWARD}


def test_a_node_with_a_state_machine_takes_records_of_other_nodes_alone() -> None:
    served = ServedApis(
        kraft_versions=None,
        kraft_version=lambda: 0,
        operator_listeners=None,
        client_listeners=("CLIENTS",),
        refuses_controller_requests=False,
        controller_listeners=("CONTROLLER",),
        serves_produce=False,
    )
    found = {name: {*served.on(name, forwards=True)} for name in ("controller", "clients")}
    appending = {ApiKey.PRODUCE, ApiKey.FORWARD}
    assert {name: keys & appending for name, keys in found.items()} == {
        "controller": {ApiKey.FORWARD},
        "clients": set(),
    }
    assert ApiKey.METADATA in found["clients"]


def test_listeners_of_clients_serve_neither_replicas_nor_operators() -> None:
    def served(operators: tuple[str, ...] | None) -> dict[str, set[int]]:
        apis = ServedApis(
            kraft_versions=None,
            kraft_version=lambda: 0,
            operator_listeners=operators,
            client_listeners=("CLIENTS", "BOTH"),
            refuses_controller_requests=True,
            controller_listeners=("CONTROLLER", "BOTH"),
        )
        return {name: {*apis.on(name, forwards=True)} for name in ("controller", "clients", "both", "other")}

    found = served(None)
    assert found["clients"] == {*CLIENT_VERSIONS, *ANYWHERE_KEYS, ApiKey.SASL_HANDSHAKE}
    assert found["other"] == ANYWHERE_KEYS
    assert found["controller"] == {*API_VERSIONS, *SERVED, ApiKey.FORWARD}
    assert found["both"] == found["controller"] | {*CLIENT_VERSIONS, ApiKey.SASL_HANDSHAKE}
    named = served(("OTHER",))
    assert named["other"] == ANYWHERE_KEYS | OPERATOR_KEYS
    assert named["controller"] == found["controller"] - OPERATOR_KEYS


def test_produce_is_listed_from_version_0_on_as_librdkafka_expects() -> None:
    apis = ServedApis(
        kraft_versions=None,
        kraft_version=lambda: 0,
        operator_listeners=None,
        client_listeners=("CLIENTS",),
        refuses_controller_requests=False,
    )
    assert apis.on("CLIENTS", forwards=False)[ApiKey.PRODUCE].min == 0
    assert APIS[ApiKey.PRODUCE].request.versions.min == 3


@pytest.mark.parametrize(("version", "serves_clients"), [(0, True), (1, True), (2, True), (1, False)])
def test_a_client_that_wants_sasl_hears_that_there_is_none_as_from_kafka(version: int, serves_clients: bool) -> None:
    desk = Desk(clients=Consumers() if serves_clients else None)
    plain = struct.pack(">hhih", ApiKey.SASL_HANDSHAKE, version, 9, 1) + b"x" + struct.pack(">h", 5) + b"PLAIN"
    desk.inbound.on_frame(ONE, plain)
    is_answered = serves_clients and version < 2
    told = struct.pack(">ihi", 9, ErrorCode.ILLEGAL_SASL_STATE, 0)
    assert [data for _, data in desk.ports.sent] == ([told] if is_answered else [])
    assert (desk.ports.closed == []) == is_answered


def test_listeners_with_sasl_name_its_apis_and_tell_versions_before_authentication() -> None:
    desk = Desk()
    desk.inbound._apis._sasl_listeners = ("RAFT",)
    asked = b"".join(map(bytes, encode_request(ApiKey.API_VERSIONS, 3, 9, None, {})))
    told = {}
    for listener in ("RAFT", "OTHER"):
        data = b"".join(map(bytes, desk.inbound.answer_api_versions(listener, asked)))
        correlation_id, body = decode_response(ApiKey.API_VERSIONS, 3, data[4:])
        assert (correlation_id, int.from_bytes(data[:4], "big")) == (9, len(data) - 4)
        told[listener] = {one["api_key"]: (one["min_version"], one["max_version"]) for one in body["api_keys"]}
    assert told["RAFT"].items() - told["OTHER"].items() == {
        (ApiKey.SASL_HANDSHAKE, (0, 1)),
        (ApiKey.SASL_AUTHENTICATE, (0, 2)),
    }
