"""Messages of the core as whole requests and responses: one table of RPCs, four functions.

The host deals with connections, versions of peers and the bytes of records. A request that is malformed above the
core's level becomes a `Refusal` with its answer. Bytes that are not a request at all raise a `ProtocolError`, after
which the connection is closed.

Source: Kafka's ApiKeys and RaftUtil.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pykraft.core import messages
from pykraft.core.messages import Request, Response, TopLevelError
from pykraft.errors import ErrorCode, TooManyElementsError
from pykraft.protocol import api
from pykraft.protocol.api import RequestHeader
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.rpc import (
    add_raft_voter,
    api_versions,
    begin_quorum_epoch,
    describe_quorum,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    remove_raft_voter,
    transfer_leadership,
    update_features,
    update_raft_voter,
    vote,
)
from pykraft.rpc.context import Refusal, RpcContext
from pykraft.types import Buffer


@dataclass(frozen=True, slots=True)
class Question:
    """The requester's half of an RPC: the type of its request, and two conversions."""

    request_type: type[Request]
    request_to_wire: Callable[[Any, int, RpcContext], Body]
    response_from_wire: Callable[[Body, RpcContext], Response]


@dataclass(frozen=True, slots=True)
class Rpc(Question):
    """One RPC of the core, with the two conversions of the answering side."""

    request_from_wire: Callable[[Body, RpcContext], Request | Refusal]
    response_to_wire: Callable[[Any, int, RpcContext], Body]


@dataclass(frozen=True, slots=True)
class Answer:
    """A decoded response; ``records`` are those of Fetch and FetchSnapshot, otherwise empty."""

    correlation_id: int
    message: Response
    records: Buffer = b""


def _rpc(request_type: type[Request], module: Any) -> Rpc:  # noqa: ANN401 (a module has no better type)
    return Rpc(
        request_type,
        module.request_to_wire,
        module.response_from_wire,
        module.request_from_wire,
        module.response_to_wire,
    )


RPCS: Mapping[int, Rpc] = {
    ApiKey.VOTE: _rpc(messages.VoteRequest, vote),
    ApiKey.BEGIN_QUORUM_EPOCH: _rpc(messages.BeginQuorumEpochRequest, begin_quorum_epoch),
    ApiKey.END_QUORUM_EPOCH: _rpc(messages.EndQuorumEpochRequest, end_quorum_epoch),
    ApiKey.FETCH: _rpc(messages.FetchRequest, fetch),
    ApiKey.FETCH_SNAPSHOT: _rpc(messages.FetchSnapshotRequest, fetch_snapshot),
    ApiKey.DESCRIBE_QUORUM: _rpc(messages.DescribeQuorumRequest, describe_quorum),
    ApiKey.ADD_RAFT_VOTER: _rpc(messages.AddVoterRequest, add_raft_voter),
    ApiKey.REMOVE_RAFT_VOTER: _rpc(messages.RemoveVoterRequest, remove_raft_voter),
    ApiKey.UPDATE_RAFT_VOTER: _rpc(messages.UpdateVoterRequest, update_raft_voter),
    ApiKey.UPDATE_FEATURES: _rpc(messages.UpdateFeaturesRequest, update_features),
    ApiKey.TRANSFER_LEADERSHIP: _rpc(messages.TransferLeadershipRequest, transfer_leadership),
}
"""The APIs that the core answers."""

QUESTIONS: Mapping[int, Question] = {
    **RPCS,
    ApiKey.API_VERSIONS: Question(
        messages.ApiVersionsRequest, api_versions.question_to_wire, api_versions.answer_from_wire
    ),
}
"""The APIs that the core requests from peers; the host answers ApiVersions by itself."""

_KEYS: Mapping[type[Request], ApiKey] = {each.request_type: ApiKey(key) for key, each in QUESTIONS.items()}
_WITH_RECORDS = {ApiKey.FETCH: fetch, ApiKey.FETCH_SNAPSHOT: fetch_snapshot}


def api_key_of(message: Request) -> ApiKey:
    return _KEYS[type(message)]


def encode_request(
    message: Request, version: int, correlation_id: int, client_id: str, context: RpcContext
) -> list[Buffer]:
    """Write a request, without the size of its frame.

    Errors: ProtocolError with UNSUPPORTED_VERSION when the version cannot carry it, such as a pre-vote below Vote 2.
    """
    key = api_key_of(message)
    body = QUESTIONS[key].request_to_wire(message, version, context)
    return api.encode_request(key, version, correlation_id, client_id, body)


def decode_request(header: RequestHeader, frame: Buffer, context: RpcContext) -> Request | Refusal:
    """Read a request whose API is in `RPCS`; for a malformed one, return its answer.

    More than one topic, or too many elements of any array, is INVALID_REQUEST above the partition.

    Errors: ProtocolError for an unknown version or bytes that are not such a request.
    """
    try:
        body = api.decode_request_body(header, frame)
    except TooManyElementsError:
        return Refusal(ErrorCode.INVALID_REQUEST, {"error_code": ErrorCode.INVALID_REQUEST})
    return RPCS[header.api_key].request_from_wire(body, context)


def encode_answer(
    header: RequestHeader, answer: Response | Refusal, context: RpcContext, records: Buffer | Sequence[Buffer] = b""
) -> list[Buffer]:
    """Write the answer to the request with this header; ``records`` only for Fetch and FetchSnapshot."""
    if isinstance(answer, Refusal):
        body = answer.body
    elif isinstance(answer, TopLevelError):
        body = {"error_code": answer.error}
    else:
        body = RPCS[header.api_key].response_to_wire(answer, header.api_version, context)
        if records:
            _WITH_RECORDS[ApiKey(header.api_key)].put_records(body, records)
    return api.encode_response(header.api_key, header.api_version, header.correlation_id, body)


def decode_answer(api_key: ApiKey, version: int, frame: Buffer, context: RpcContext) -> Answer:
    """Read the response to a request of this API and version.

    Errors: ProtocolError for bytes that are not such a response, or for a response that is not about our partition.
    """
    correlation_id, body = api.decode_response(api_key, version, frame)
    message = QUESTIONS[api_key].response_from_wire(body, context)
    if api_key in _WITH_RECORDS and not isinstance(message, TopLevelError):
        return Answer(correlation_id, message, _WITH_RECORDS[api_key].records_of(body, context))
    return Answer(correlation_id, message)
