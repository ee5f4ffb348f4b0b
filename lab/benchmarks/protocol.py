"""What one message costs: ``python lab/benchmarks/protocol.py [--json]``.

Microseconds for a whole request or response, header included: dict to bytes and bytes to dict, and for Vote and Fetch
also from and to the core's messages. Rounds of all cases are interleaved, so a noisy minute affects all cases alike;
each line gives minimum, median and maximum over the rounds. The bodies are those of a follower in a quorum.
"""

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pykraft.core.messages import FetchRequest, FetchResponse, Request, Response, VoteRequest, VoteResponse
from pykraft.protocol.api import (
    ApiKey,
    FrameReader,
    RequestHeader,
    decode_request_body,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    frame,
)
from pykraft.rpc import codec
from pykraft.rpc.context import RpcContext
from pykraft.types import Endpoint, Epoch, Listeners, NodeId, Offset, OffsetAndEpoch, ReplicaKey, Uuid

ROUNDS = 9
ROUND_SECONDS = 0.05
CONTEXT = RpcContext(
    cluster_id="AAAAAAAAAAAAAAAAAAAAAA",
    topic_name="__raft_performance_test",
    topic_id=Uuid(bytes(15) + b"\2"),
    default_listener="CONTROLLER",
)
VOTER = ReplicaKey(NodeId(2), Uuid(b"R" * 16))
LEADER = Listeners((("CONTROLLER", Endpoint("127.0.0.1", 9093)),))
RECORDS = memoryview(bytes(1_000_000))

VOTE: tuple[ApiKey, int, Request, Response] = (
    ApiKey.VOTE,
    2,
    VoteRequest(
        epoch=Epoch(5),
        candidate=VOTER,
        voter=ReplicaKey(NodeId(3), Uuid(b"V" * 16)),
        last=OffsetAndEpoch(Offset(9), Epoch(4)),
        pre_vote=True,
    ),
    VoteResponse(error=0, epoch=Epoch(5), leader_id=NodeId(1), vote_granted=True, listeners=LEADER),
)
FETCH: tuple[ApiKey, int, Request, Response] = (
    ApiKey.FETCH,
    18,
    FetchRequest(
        replica=VOTER,
        epoch=Epoch(3),
        fetch_offset=Offset(7_000_000),
        last_fetched_epoch=Epoch(3),
        wait_ms_max=500,
        size_bytes_max=1_048_576,
        high_watermark=6_999_990,
    ),
    FetchResponse(
        error=0,
        epoch=Epoch(3),
        leader_id=NodeId(1),
        high_watermark=Offset(7_000_000),
        log_start_offset=Offset(0),
        listeners=LEADER,
    ),
)


@dataclass
class Case:
    """One measurement."""

    name: str
    run: Callable[[], object]
    costs_us: list[float] = field(default_factory=list)

    def measure(self, seconds: float) -> None:
        """Call it for about this long; records the cost of one call."""
        calls = 0
        start = time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            for _ in range(100):
                self.run()
            calls += 100
        self.costs_us.append(elapsed / calls * 1e6)


def cases() -> Iterator[Case]:
    """Both RPCs in both directions, then frames."""
    for api in (VOTE, FETCH):
        yield from of_dicts(*api)
        yield from of_messages(*api)
    small = b"".join(frame([bytes(170)])) * 10
    yield Case("10 frames of 170 B in one piece", lambda: FrameReader(2**20).feed(small))
    large = b"".join(frame([bytes(1_000_000)]))
    pieces = [large[start : start + 65_536] for start in range(0, len(large), 65_536)]
    yield Case("a frame of 1 MB in 16 pieces", lambda: [*map(FrameReader(2**20).feed, pieces)])


def of_dicts(key: ApiKey, version: int, request: Request, response: Response) -> Iterator[Case]:
    raw = b"".join(codec.encode_request(request, version, 7, "raft-client-2", CONTEXT))
    header = decode_request_header(raw)
    body = decode_request_body(header, raw)
    answer = b"".join(codec.encode_answer(header, response, CONTEXT))
    _, answer_body = decode_response(key, version, answer)
    name = f"{key.name.title()} v{version}"

    def decode() -> dict[str, Any]:
        return decode_request_body(decode_request_header(raw), raw)

    yield Case(f"{name} request encode", lambda: encode_request(key, version, 7, "raft-client-2", body))
    yield Case(f"{name} request decode", decode)
    yield Case(f"{name} response encode", lambda: encode_response(key, version, 7, answer_body))
    yield Case(f"{name} response decode", lambda: decode_response(key, version, answer))


def of_messages(key: ApiKey, version: int, request: Request, response: Response) -> Iterator[Case]:
    """Between the core's messages and bytes; a Fetch answer carries 1 MB of records."""
    raw = b"".join(codec.encode_request(request, version, 7, "raft-client-2", CONTEXT))
    header = RequestHeader(key, version, 7, "raft-client-2", 0)
    records = RECORDS if key is ApiKey.FETCH else b""
    answer = b"".join(codec.encode_answer(header, response, CONTEXT, records))
    name = f"{key.name.title()} v{version} message"

    def decode() -> object:
        return codec.decode_request(decode_request_header(raw), raw, CONTEXT)

    yield Case(f"{name} request encode", lambda: codec.encode_request(request, version, 7, "raft-client-2", CONTEXT))
    yield Case(f"{name} request decode", decode)
    yield Case(f"{name} response encode", lambda: codec.encode_answer(header, response, CONTEXT, records))
    yield Case(f"{name} response decode", lambda: codec.decode_answer(key, version, answer, CONTEXT))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    all_cases = list(cases())
    for _ in range(ROUNDS):
        for case in all_cases:
            case.measure(ROUND_SECONDS)
    if arguments.json:
        json.dump({case.name: [round(cost, 3) for cost in case.costs_us] for case in all_cases}, sys.stdout)
        return
    print(f"{'microseconds':36}{'min':>8}{'median':>8}{'max':>8}")
    for case in all_cases:
        low, middle, high = min(case.costs_us), statistics.median(case.costs_us), max(case.costs_us)
        print(f"{case.name:36}{low:8.2f}{middle:8.2f}{high:8.2f}")


if __name__ == "__main__":
    main()
