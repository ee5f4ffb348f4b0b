"""Renders one run as one HTML file: the recording becomes JSON inside a page that needs nothing else.

This module defines the form of that JSON, which ``model.js`` reads. The page refers to no address outside itself, and a
content security policy forbids its code to load any. Source: Content Security Policy Level 3 (W3C).

Explains a failure to somebody new to the project: the rule, what was seen, and why the rule exists.

An oracle explains itself: the docstring of its class is the rule, that of its module the reason and the source. Rules
without an oracle file are explained here. Only the reason of the failure is needed, not the run.

Describes frames in words: which message of the quorum it is, and its main fields.

It remembers requests until their answers come, because an answer does not name its API. It never fails: a frame that
cannot be decoded, for example because of a planted bug, is described as unreadable.

Source: the cited source of each oracle; KIP-595 (Vote, BeginQuorumEpoch, EndQuorumEpoch, Fetch), KIP-996 (PreVote),
KIP-630 (FetchSnapshot).
"""

import inspect
import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from pykraft.errors import ErrorCode, ProtocolError
from pykraft.page import render_page
from pykraft.protocol.api import RequestHeader, decode_request_body, decode_request_header, decode_response
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.messages.fetch import HIGH_WATERMARK_NOT_TOLD
from pykraft.protocol.records import scan
from pykraft.sim.invariants import ALL
from pykraft.sim.machine import trace

ANSWER = " answer"
UNREADABLE = "unreadable"
_CORRELATION_IDS = 1 << 16
"""A frame's first four bytes: at least this in a request (API key, at least 1), less in an answer (correlation id)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageText:
    """A message in words: its kind, such as ``Fetch`` or ``Fetch answer``, and the rest."""

    kind: str
    text: str
    body: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Its fields, as `pykraft.protocol` decodes them; empty if it cannot be read."""


class Words:
    """Describes the frames of one world; needs them in the order in which they were sent."""

    def __init__(self) -> None:
        self._asked: dict[tuple[int, int, int], tuple[RequestHeader, bool]] = {}

    def describe(self, source_id: int, target_id: int, frame: bytes) -> MessageText:
        try:
            if len(frame) >= 4 and int.from_bytes(frame[:4], "big") >= _CORRELATION_IDS:
                return self._request(source_id, target_id, frame)
            return self._answer(source_id, target_id, frame)
        except (ProtocolError, LookupError, ValueError) as error:
            return MessageText(kind=UNREADABLE, text=f"{len(frame)} bytes: {error}")

    def _request(self, source_id: int, target_id: int, frame: bytes) -> MessageText:
        header = decode_request_header(frame)
        body = decode_request_body(header, frame)
        kind, text = _REQUESTS.get(ApiKey(header.api_key), _other_request)(ApiKey(header.api_key), body)
        self._asked[source_id, target_id, header.correlation_id] = header, kind == "PreVote"
        return MessageText(kind=kind, text=text, body=body)

    def _answer(self, source_id: int, target_id: int, frame: bytes) -> MessageText:
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        header, is_pre_vote = self._asked[target_id, source_id, correlation_id]
        api_key = ApiKey(header.api_key)
        _, body = decode_response(api_key, header.api_version, frame)
        name = "PreVote" if is_pre_vote else _name(api_key)
        text = _error(body) or _ANSWERS.get(api_key, _other_answer)(body)
        return MessageText(kind=name + ANSWER, text=text, body=body)


def _name(api_key: ApiKey) -> str:
    return "".join(word.capitalize() for word in api_key.name.split("_"))


def _vote(_: ApiKey, body: dict[str, Any]) -> tuple[str, str]:
    partition = body["topics"][0]["partitions"][0]
    asks = f"node {partition['replica_id']} asks, in epoch {partition['replica_epoch']}"
    ends = f"its log ends at {partition['last_offset']}, epoch {partition['last_offset_epoch']}"
    return ("PreVote" if partition.get("pre_vote") else "Vote"), f"{asks}; {ends}"


def _begin_or_end(api_key: ApiKey, body: dict[str, Any]) -> tuple[str, str]:
    partition = body["topics"][0]["partitions"][0]
    verb = "leads" if api_key is ApiKey.BEGIN_QUORUM_EPOCH else "gives up"
    return _name(api_key), f"node {partition['leader_id']} {verb} epoch {partition['leader_epoch']}"


def _fetch(api_key: ApiKey, body: dict[str, Any]) -> tuple[str, str]:
    partition = body["topics"][0]["partitions"][0]
    end = f"from {partition['fetch_offset']} on, last epoch {partition['last_fetched_epoch']}"
    told = partition["high_watermark"]
    known = "" if told in (-1, HIGH_WATERMARK_NOT_TOLD) else f", high watermark {told}"
    return _name(api_key), f"{end}; in epoch {partition['current_leader_epoch']}{known}"


def _fetch_snapshot(api_key: ApiKey, body: dict[str, Any]) -> tuple[str, str]:
    partition = body["topics"][0]["partitions"][0]
    where = f"from byte {partition['position']} on; in epoch {partition['current_leader_epoch']}"
    return _name(api_key), f"{_snapshot(partition['snapshot_id'])}, {where}"


def _other_request(api_key: ApiKey, body: dict[str, Any]) -> tuple[str, str]:
    return _name(api_key), ", ".join(f"{name} {value}" for name, value in body.items() if isinstance(value, int))


def _vote_answer(body: dict[str, Any]) -> str:
    partition = body["topics"][0]["partitions"][0]
    return f"{'granted' if partition['vote_granted'] else 'denied'}; {_leader(partition)}"


def _begin_or_end_answer(body: dict[str, Any]) -> str:
    return _leader(body["topics"][0]["partitions"][0])


def _fetch_answer(body: dict[str, Any]) -> str:
    partition = body["responses"][0]["partitions"][0]
    diverging = partition["diverging_epoch"]
    if diverging["end_offset"] >= 0:
        return f"your log is another one: epoch {diverging['epoch']} ends at {diverging['end_offset']} here"
    if partition["snapshot_id"]["end_offset"] >= 0:
        return f"fetch {_snapshot(partition['snapshot_id'])} instead"
    records = partition["records"]
    batches = [header for _, header in scan(records, verify_crc=False)] if records else []
    what = "nothing new"
    if batches:
        epochs = sorted({header.epoch for header in batches})
        of = f"epoch {epochs[0]}" if len(epochs) == 1 else f"epochs {epochs[0]} to {epochs[-1]}"
        what = f"{batches[0].base_offset} to {batches[-1].last_offset} of {of}"
    watermark = partition["high_watermark"]
    return f"{what}; high watermark {watermark if watermark >= 0 else 'unknown'}"


def _fetch_snapshot_answer(body: dict[str, Any]) -> str:
    partition = body["topics"][0]["partitions"][0]
    size = f"{len(partition['unaligned_records'])} bytes from byte {partition['position']} on of {partition['size']}"
    return f"{_snapshot(partition['snapshot_id'])}: {size}"


def _snapshot(snapshot_id: dict[str, int]) -> str:
    return f"the snapshot up to {snapshot_id['end_offset']} of epoch {snapshot_id['epoch']}"


def _other_answer(body: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in body.items() if isinstance(value, int))


def _leader(partition: dict[str, Any]) -> str:
    leader_id = partition["leader_id"]
    known = f"led by node {leader_id}" if leader_id >= 0 else "whose leader I do not know"
    return f"I am in epoch {partition['leader_epoch']}, {known}"


def _error(body: dict[str, Any]) -> str:
    code = body.get("error_code", 0)
    for name in ("topics", "responses"):
        for topic in body.get(name) or ():
            for partition in topic.get("partitions", ()):
                code = code or partition.get("error_code", 0)
                if code and partition.get("leader_epoch", -1) >= 0:
                    return f"{_code_name(code)}; {_leader(partition)}"
                leader = partition.get("current_leader", {})
                if code and leader.get("leader_epoch", -1) >= 0:
                    return f"{_code_name(code)}; {_leader(leader)}"
    return _code_name(code) if code else ""


def _code_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"


_REQUESTS: dict[ApiKey, Callable[[ApiKey, dict[str, Any]], tuple[str, str]]] = {
    ApiKey.VOTE: _vote,
    ApiKey.BEGIN_QUORUM_EPOCH: _begin_or_end,
    ApiKey.END_QUORUM_EPOCH: _begin_or_end,
    ApiKey.FETCH: _fetch,
    ApiKey.FETCH_SNAPSHOT: _fetch_snapshot,
}
_ANSWERS: dict[ApiKey, Callable[[dict[str, Any]], str]] = {
    ApiKey.VOTE: _vote_answer,
    ApiKey.BEGIN_QUORUM_EPOCH: _begin_or_end_answer,
    ApiKey.END_QUORUM_EPOCH: _begin_or_end_answer,
    ApiKey.FETCH: _fetch_answer,
    ApiKey.FETCH_SNAPSHOT: _fetch_snapshot_answer,
}


SOURCE = "Source:"
_OTHERS = {
    "Liveness": (
        "There is always something that is still to happen.",
        "A node that runs has a timer; without any, no node would ever do anything again.",
        "Kafka's RaftEventSimulationTest (the queue of events is never empty).",
    )
}
_UNKNOWN = (
    "The code of a node never raises an error that it does not expect.",
    "An assertion of the production code or an error that nobody handles ended the run; the traceback tells where.",
    "assertions in the production code.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A failure in plain words; ``nodes`` are the nodes that ``seen`` mentions."""

    title: str
    seen: str
    rule: str
    why: str
    source: str
    nodes: tuple[int, ...]


def explain(reason: str) -> Explanation:
    """Parse the reason of a `pykraft.sim.run.simulation.Failure`: error class, then oracle, then what was seen."""
    error, _, rest = reason.partition(": ")
    name, _, seen = rest.partition(": ")
    rule, why, source = _UNKNOWN
    if error == "ViolationError":
        rule, why, source = _OTHERS.get(name) or _of_oracle(name)
        title = f"{name} was violated"
    else:
        title, seen = f"A node failed with {error}", rest
    nodes = dict.fromkeys(int(number) for number in re.findall(r"\b(?:node|leader)s? (\d+)", seen))
    return Explanation(title=title, seen=seen, rule=rule, why=why, source=source, nodes=tuple(nodes))


def _of_oracle(name: str) -> tuple[str, str, str]:
    oracle = next((kind for kind in ALL if kind.__name__ == name), None)
    if oracle is None:
        return _UNKNOWN
    text, _, source = (inspect.getdoc(oracle) or "").partition(SOURCE)
    rule, _, why = text.partition("\n\n")
    # A rule that needs no reason of its own stands under the subject of its module.
    return _plain(rule), _plain(why or inspect.getdoc(sys.modules[oracle.__module__]) or ""), _plain(source)


def _plain(text: str) -> str:
    return " ".join(text.replace("``", "").replace("`", "").split())


FOLDER = Path(__file__).parent
UNDER_WAY, LOST = -1, -2
SCRIPTS = ("model.js", "draw.js", "links.js", "lesson.js", "controls.js")


def render(
    recorder: trace.Recorder, *, title: str, replay: str, reason: str | None, lesson: Mapping[str, Any] | None = None
) -> str:
    """The page as text. ``reason`` is that of a failure, or None; ``lesson.js`` shows the lesson."""
    told, nodes = _Told(recorder), recorder.nodes
    violation = None
    if reason is not None:
        explained = explain(reason)
        last = recorder.events[-1] if recorder.events else None
        blamed = explained.nodes[0] if explained.nodes else (last.node_id if last is not None else None)
        told.events.append([last.at_us if last else 0, blamed, "v", explained.seen or reason])
        violation = {
            "title": explained.title,
            "seen": explained.seen,
            "rule": explained.rule,
            "why": explained.why,
            "source": f"Where the rule comes from: {explained.source}",
            "nodes": [node_id for node_id in explained.nodes if node_id in nodes],
            "event": len(told.events) - 1,
        }
        if told.events[-1][1] not in nodes:
            told.events[-1][1] = 0
    recording = {
        "nodes": [{"id": node_id, "votes": votes} for node_id, votes in nodes.items()],
        "events": told.events,
        "messages": told.messages,
        "violation": violation,
        "lesson": lesson,
    }
    if recorder.dropped:
        title = f"{title} (the last {len(recorder.events)} of {recorder.happened} events)"
    parts = {
        "title": escape(title),
        "replay": escape(f"See it again: {replay}"),
        "recording": json.dumps(recording, separators=(",", ":")).replace("<", "\\u003c"),
        "script": "\n".join((FOLDER / name).read_text() for name in SCRIPTS),
    }
    return render_page(FOLDER, parts, has_script=True)


class _Told:
    """Events and messages as lists for JSON."""

    def __init__(self, recorder: trace.Recorder) -> None:
        self.events: list[list[Any]] = []
        self.messages: list[list[Any]] = []
        self._words = Words()
        self._place_of: dict[int, int] = {}
        self._under_way = recorder.under_way
        for event in recorder.events:
            self._add(event)

    def _add(self, event: trace.RecordedEvent) -> None:
        match event:
            case trace.Sent():
                self._sent(event)
            case trace.Arrived():
                self._arrived(event)
            case trace.Changed(state=state):
                self._event(event, "c", _listed(state))
            case trace.FaultInjected(kind=kind):
                self._event(event, "f", kind)
            case trace.TraceLine(text=text):
                self._event(event, "n", text)

    def _sent(self, sent: trace.Sent) -> None:
        assert sent.node_id is not None
        told = self._words.describe(sent.node_id, sent.target_id, sent.frame)
        self._place_of[sent.number] = len(self.messages)
        fate = UNDER_WAY if sent.number in self._under_way else LOST
        self.messages.append([sent.node_id, sent.target_id, told.kind, told.text, len(self.events), fate])
        self._event(sent, "s", self._place_of[sent.number])

    def _arrived(self, arrived: trace.Arrived) -> None:
        place = self._place_of.get(arrived.number)
        if place is None:
            return
        if self.messages[place][-1] < 0:
            self.messages[place][-1] = len(self.events)
        self._event(arrived, "a", place)

    def _event(self, event: trace.RecordedEvent, kind: str, payload: object) -> None:
        self.events.append([event.at_us, event.node_id or 0, kind, payload])


def _listed(state: trace.NodeState) -> list[Any]:
    return [
        state.role,
        state.epoch,
        state.leader_id,
        state.vote,
        state.disk_epoch,
        state.log_end,
        state.flushed,
        state.high_watermark,
        state.is_damaged,
        state.voters,
    ]
