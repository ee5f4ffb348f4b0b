"""Renders one run as one HTML file: the recording becomes JSON inside a page that needs nothing else.

This module defines the form of that JSON, which ``model.js`` reads. The page refers to no address outside itself, and a
content security policy forbids its code to load any. Source: Content Security Policy Level 3 (W3C).
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

from pykraft.page import render_page
from pykraft.sim.machine.recorder import (
    Arrived,
    Changed,
    FaultInjected,
    NodeState,
    RecordedEvent,
    Recorder,
    Sent,
    TraceLine,
)
from pykraft.sim.page.explain import explain
from pykraft.sim.page.words import Words

FOLDER = Path(__file__).parent
UNDER_WAY, LOST = -1, -2
SCRIPTS = ("model.js", "draw.js", "links.js", "controls.js")


def render(recorder: Recorder, *, title: str, replay: str, reason: str | None) -> str:
    """The page as text. ``reason`` is that of a failure, or None."""
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

    def __init__(self, recorder: Recorder) -> None:
        self.events: list[list[Any]] = []
        self.messages: list[list[Any]] = []
        self._words = Words()
        self._place_of: dict[int, int] = {}
        self._under_way = recorder.under_way
        for event in recorder.events:
            self._add(event)

    def _add(self, event: RecordedEvent) -> None:
        match event:
            case Sent():
                self._sent(event)
            case Arrived():
                self._arrived(event)
            case Changed(state=state):
                self._event(event, "c", _listed(state))
            case FaultInjected(kind=kind):
                self._event(event, "f", kind)
            case TraceLine(text=text):
                self._event(event, "n", text)

    def _sent(self, sent: Sent) -> None:
        assert sent.node_id is not None
        told = self._words.tell(sent.node_id, sent.target_id, sent.frame)
        self._place_of[sent.number] = len(self.messages)
        fate = UNDER_WAY if sent.number in self._under_way else LOST
        self.messages.append([sent.node_id, sent.target_id, told.kind, told.text, len(self.events), fate])
        self._event(sent, "s", self._place_of[sent.number])

    def _arrived(self, arrived: Arrived) -> None:
        """Only the first arrival ends the arrow; frames that were sent before the kept events are left out."""
        place = self._place_of.get(arrived.number)
        if place is None:
            return
        if self.messages[place][-1] < 0:
            self.messages[place][-1] = len(self.events)
        self._event(arrived, "a", place)

    def _event(self, event: RecordedEvent, kind: str, payload: object) -> None:
        self.events.append([event.at_us, event.node_id or 0, kind, payload])


def _listed(state: NodeState) -> list[Any]:
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
    ]
