"""Every table against kio, whose classes are generated from Kafka's own definitions.

Ours to kio: what we write, kio reads as the same values and writes as the same bytes. kio to ours: what kio writes
of the same values, we read as those values. kio has everything but ApiVersions 5 and UnregisterController, and wants
error codes that Kafka has and no tagged fields of the future.

Fields that several messages share.

Source: Kafka's message definitions; KIP-853.
"""

import dataclasses
import io
import typing
import uuid
from datetime import timedelta
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import Records

from pykraft.protocol.messages import API_VERSIONS, APIS, PRIVATE_KEY_MIN, ApiKey
from pykraft.protocol.messages.common import LISTENER, NODE_ENDPOINTS
from pykraft.protocol.schema import INT32, UINT16, Array, Body, Kind, Message, Struct
from tests.protocol.bodies import bodies, message_id, read, write

KIO_NAMES = {
    "throttle_time_ms": "throttle_time",
    "max_wait_ms": "max_wait",
    "timeout_ms": "timeout",
    "transaction_timeout_ms": "transaction_timeout",
    "kraft_version_feature": "k_raft_version_feature",
    "log_append_time_ms": "log_append_time",
    "retention_time_ms": "retention_time",
    "session_lifetime_ms": "session_lifetime",
    "session_timeout_ms": "session_timeout",
    "rebalance_timeout_ms": "rebalance_timeout",
    "heartbeat_interval_ms": "heartbeat_interval",
}
KIO_KINDS = {
    "bool": Kind.BOOL,
    "int8": Kind.INT8,
    "int16": Kind.INT16,
    "error_code": Kind.INT16,
    "uint16": Kind.UINT16,
    "int32": Kind.INT32,
    "timedelta_i32": Kind.INT32,
    "int64": Kind.INT64,
    "datetime_i64": Kind.INT64,
    "uuid": Kind.UUID,
    "timedelta_i64": Kind.INT64,
    "string": Kind.STRING,
    "bytes": Kind.BYTES,
    "records": Kind.RECORDS,
}
OUR_NAMES = {theirs: ours for ours, theirs in KIO_NAMES.items()}
TWINS = [
    (message, version, load(key, version))
    for key, api in APIS.items()
    for message, load in ((api.request, load_request_schema), (api.response, load_response_schema))
    for version in range(message.versions.min, message.versions.max + 1)
    if (key, version) != (ApiKey.API_VERSIONS, 5) and ApiKey.UNREGISTER_CONTROLLER != key < PRIVATE_KEY_MIN
]


@cache
def hints(entity: type) -> dict[str, Any]:
    return typing.get_type_hints(entity)


def to_kio(entity: type, body: Body) -> Any:
    """The kio object of a body; what its version lacks is left out."""
    values: dict[str, Any] = {}
    for one in dataclasses.fields(entity):
        if one.metadata.get("kafka_type") == "datetime_i64":
            values[one.name] = None  # as in `without_times`
            continue
        values[one.name] = kio_value(hints(entity)[one.name], body[OUR_NAMES.get(one.name, one.name)])
    return entity(**values)


def kio_value(hint: Any, value: Any) -> Any:
    options = typing.get_args(hint)
    if value is None:
        return None
    if isinstance(value, list):
        element = next(one for one in (typing.get_args(hint) or ()) if one is not type(None))
        if typing.get_origin(element) is tuple:  # tuple[X, ...] | None
            element = typing.get_args(element)[0]
        return tuple(kio_value(element, one) for one in value)
    if isinstance(value, dict):
        # A struct that may be null is ``X | None``.
        return to_kio(next((one for one in options if one is not type(None)), hint), value)
    if uuid.UUID in (hint, *options):
        return uuid.UUID(bytes=value) if any(value) else None
    if Records in (hint, *options):
        return Records(value)
    if hint is ErrorCode:
        return ErrorCode(value)
    if isinstance(hint, type) and issubclass(hint, timedelta):
        return timedelta(milliseconds=value)
    return value


def from_kio(value: Any) -> Any:
    """A kio object, or one of its values, as ours."""
    if dataclasses.is_dataclass(value):
        names = [one.name for one in dataclasses.fields(value)]
        found = {OUR_NAMES.get(name, name): from_kio(getattr(value, name)) for name in names}
        return {
            name: bytes(16)
            if one is None and name.endswith(("directory_id", "topic_id"))
            else -1
            if name == "log_append_time_ms"
            else one
            for name, one in found.items()
        }
    if isinstance(value, tuple):
        return [from_kio(one) for one in value]
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, timedelta):
        return round(value / timedelta(milliseconds=1))
    if isinstance(value, ErrorCode):
        return int(value.value)
    return value


TIMES = {"log_append_time_ms": -1, "retention_time_ms": -1, "session_lifetime_ms": 0}


def without_times(body: Any) -> Any:
    """The body without times of appends: kio has them as dates, and an int64 is more than a date can be."""
    if isinstance(body, dict):
        return {name: TIMES[name] if name in TIMES else without_times(one) for name, one in body.items()}
    return [without_times(one) for one in body] if isinstance(body, list) else body


def same_keys(body: Any, sample: Any) -> Any:
    """The part of a body whose keys kio's version has too."""
    if isinstance(sample, dict):
        return {name: same_keys(body[name], value) for name, value in sample.items()}
    if isinstance(sample, list):
        return [same_keys(one, other) for one, other in zip(body, sample, strict=True)]
    return body


@pytest.mark.no_cover  # it would take twice as long, and other tests reach the same
@pytest.mark.conformance(100)
@pytest.mark.parametrize(("message", "version", "entity"), TWINS, ids=message_id)
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_kio_reads_and_writes_what_we_write(message: Message, version: int, entity: Any, data: st.DataObject) -> None:
    body = without_times(data.draw(bodies(message, version, unknown_tags=False)))
    raw = write(message, version, body)
    theirs, size_bytes = entity_reader(entity)(raw, 0)
    assert size_bytes == len(raw)
    found = from_kio(theirs)
    assert found == same_keys(body, found)
    out = io.BytesIO()
    entity_writer(entity)(out, theirs)
    assert out.getvalue() == raw


@pytest.mark.no_cover  # it would take twice as long, and other tests reach the same
@pytest.mark.conformance(100)
@pytest.mark.parametrize(("message", "version", "entity"), TWINS, ids=message_id)
@settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_we_read_what_kio_writes(message: Message, version: int, entity: Any, data: st.DataObject) -> None:
    body = without_times(data.draw(bodies(message, version, unknown_tags=False)))
    out = io.BytesIO()
    entity_writer(entity)(out, to_kio(entity, body))
    found, position = read(message, version, out.getvalue())
    assert (found, position) == (body, len(out.getvalue()))


@pytest.mark.parametrize(("message", "version", "entity"), TWINS, ids=message_id)
def test_headers_and_flexible_versions_are_kios(message: Message, version: int, entity: Any) -> None:
    assert entity.__flexible__ == (version in message.flexible)
    is_request = message.name.endswith("Request")
    plain = not entity.__flexible__ or message.name == "ApiVersionsResponse"
    assert entity.__header_schema__.__version__ == (1 if is_request else 0) + (not plain)


def compare_tables(schema: Struct, version: int, entity: Any) -> None:
    """Field by field: name, order, kind, tag, default, and whether null is allowed."""
    ours = {KIO_NAMES.get(one.name, one.name): one for one in schema.fields if version in one.present}
    theirs = {one.name: one for one in dataclasses.fields(entity)}
    assert ours.keys() == theirs.keys()
    in_order = [name for name, one in ours.items() if one.tag is None]
    assert in_order == [name for name, one in theirs.items() if "tag" not in one.metadata]
    for name, one in ours.items():
        assert one.tag == theirs[name].metadata.get("tag"), name
        options = typing.get_args(hints(entity)[name])
        is_date = theirs[name].metadata.get("kafka_type") == "datetime_i64"
        if one.kind is not Kind.UUID and not is_date:
            assert one.may_be_null(version) == (type(None) in options), name
        if isinstance(one.kind, Kind):
            assert KIO_KINDS[theirs[name].metadata["kafka_type"]] is one.kind, name
            if theirs[name].default is not dataclasses.MISSING and one.kind is not Kind.UUID and not is_date:
                assert from_kio(theirs[name].default) == one.default, name
        inner = one.kind.of if isinstance(one.kind, Array) else one.kind
        if isinstance(inner, Struct):
            compare_tables(inner, version, struct_hint(hints(entity)[name]))


def struct_hint(hint: Any) -> Any:
    """The class in ``X``, ``tuple[X, ...]`` or ``tuple[X, ...] | None``."""
    while not dataclasses.is_dataclass(hint):
        hint = typing.get_args(hint)[0]
    return hint


@pytest.mark.conformance(100)
@pytest.mark.parametrize(("message", "version", "entity"), TWINS, ids=message_id)
def test_the_tables_are_kios(message: Message, version: int, entity: Any) -> None:
    compare_tables(message.body, version, entity)


@pytest.mark.parametrize(("key", "versions"), API_VERSIONS.items())
def test_keys_and_names_are_kafkas(key: ApiKey, versions: object) -> None:
    assert api_key_map.get(key) == (None if key >= PRIVATE_KEY_MIN else key.name.lower())
    camel = key.name.title().replace("_", "")
    assert (APIS[key].request.name, APIS[key].response.name) == (f"{camel}Request", f"{camel}Response")
    assert versions == APIS[key].request.versions


def test_every_endpoint_of_the_quorum_has_a_16_bit_port_but_fetchs_and_produces() -> None:
    ports = {}
    for api in APIS.values():
        for one in api.response.body.fields:
            if one.name == "node_endpoints":
                assert isinstance(one.kind, Array)
                assert isinstance(one.kind.of, Struct)
                ports[api.response.name] = next(part.kind for part in one.kind.of.fields if part.name == "port")
    wide = {name for name, kind in ports.items() if kind is INT32}
    assert wide == {"FetchResponse", "ProduceResponse"}
    assert {kind for name, kind in ports.items() if name not in wide} == {UINT16}


def test_the_shared_endpoint_is_tagged_and_a_listener_has_a_name() -> None:
    assert (NODE_ENDPOINTS.tag, NODE_ENDPOINTS.versions) == (0, "1+")
    assert [one.name for one in LISTENER] == ["name", "host", "port"]
