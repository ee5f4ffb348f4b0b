"""What the tests of all RPCs need: a context, and a message sent through real bytes."""

from typing import TypeVar

from pykraft.core.messages import Request, Response
from pykraft.protocol import api
from pykraft.rpc import codec
from pykraft.rpc.codec import Answer
from pykraft.rpc.context import Refusal, RpcContext
from pykraft.types import Endpoint, Listeners, NodeId, ReplicaKey, Uuid

CONTEXT = RpcContext(
    cluster_id="AAAAAAAAAAAAAAAAAAAAAA",
    topic_name="__raft_performance_test",
    topic_id=Uuid(bytes(15) + b"\2"),
    default_listener="CONTROLLER",
)
LEADER = Listeners((("CONTROLLER", Endpoint("localhost", 9093)),))
TWO_LISTENERS = Listeners((("CONTROLLER", Endpoint("localhost", 9093)), ("OTHER", Endpoint("::1", 9094))))
KEY_2 = ReplicaKey(NodeId(2), Uuid(b"R" * 16))
KEY_3 = ReplicaKey(NodeId(3), Uuid(b"V" * 16))

R = TypeVar("R", bound=Request)
A = TypeVar("A", bound=Response)


def sent(message: R, version: int) -> R:
    """The request as its receiver has it."""
    raw = b"".join(codec.encode_request(message, version, 1, "raft-client-1", CONTEXT))
    found = codec.decode_request(api.decode_request_header(raw), raw, CONTEXT)
    assert type(found) is type(message)
    return found


def body_of(message: Request, version: int) -> api.Body:
    """The wire body of a request."""
    raw = b"".join(codec.encode_request(message, version, 1, "raft-client-1", CONTEXT))
    return api.decode_request_body(api.decode_request_header(raw), raw)


def asked(api_key: api.ApiKey, version: int, body: api.Body) -> Request | Refusal:
    """What becomes of a request with this body."""
    raw = b"".join(api.encode_request(api_key, version, 1, None, body))
    return codec.decode_request(api.decode_request_header(raw), raw, CONTEXT)


def answered(api_key: api.ApiKey, version: int, answer: Response | Refusal, records: bytes = b"") -> Answer:
    """An answer as the requester has it."""
    header = api.RequestHeader(api_key, version, 1, None, 0)
    raw = b"".join(codec.encode_answer(header, answer, CONTEXT, records))
    return codec.decode_answer(api_key, version, raw, CONTEXT)


def replied(api_key: api.ApiKey, version: int, message: A) -> A:
    """A response as the requester has it."""
    found = answered(api_key, version, message).message
    assert type(found) is type(message)
    return found


def receive(api_key: api.ApiKey, version: int, body: api.Body) -> Response:
    """What becomes of a response with this body."""
    raw = b"".join(api.encode_response(api_key, version, 1, body))
    return codec.decode_answer(api_key, version, raw, CONTEXT).message
