"""Which peer is ready for a request: at most one is in flight to each, and a back-off follows a failure.

A request times out after one request timeout, or later while enough of its response keeps arriving (`AnswerPace`).

This module owns the correlation ids of the raft level. A response counts only if it answers the newest request to its
peer. Every state transition forgets all requests, so that a response to another state or epoch is never applied.

Source: KIP-595 §Request timeout; Kafka ``RequestManager``; KAFKA-19354 (bootstrap when the leader fails).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from pykraft.core.answer_pace import AnswerPace
from pykraft.core.effects import Peer
from pykraft.types import Endpoint


@dataclass(slots=True)
class _InFlight:
    """One request. ``is_aside``: it belongs to a survey (`core.on.proof`), and no other request waits for it."""

    correlation_id: int
    deadline_ms: int
    pace: AnswerPace
    is_aside: bool


class Connections:
    """Requests in flight and back-offs, by peer id."""

    def __init__(self, *, request_timeout_ms: int, retry_backoff_ms: int, floor_bytes: int = 1) -> None:
        """At least ``floor_bytes`` of a response must arrive per request timeout, or the request times out."""
        self._request_timeout_ms = request_timeout_ms
        self._floor_bytes = floor_bytes
        self._retry_backoff_ms = retry_backoff_ms
        self._in_flight: dict[int, _InFlight] = {}
        self._backing_off: dict[int, int] = {}
        """When the back-off of each peer ends (mono ms)."""
        self.asked_at: dict[int, Endpoint] = {}
        """Where the last request to each peer went."""
        self.pre_votes_asked: dict[int, int] = {}
        """How often each voter was asked for its pre-vote since a leader was heard."""
        self._next_correlation_id = 0

    def reset(self) -> None:
        """Forget all requests and back-offs; later responses are ignored."""
        self._in_flight.clear()
        self._backing_off.clear()
        self.asked_at.clear()

    def is_ready(self, peer_id: int) -> bool:
        """True when a request may be sent to this peer now."""
        return peer_id not in self._in_flight and peer_id not in self._backing_off

    def is_backing_off(self, peer_id: int) -> bool:
        """True during the back-off after a failure."""
        return peer_id in self._backing_off

    def is_asked(self, peer_id: int) -> bool:
        """True when a request to this peer is in flight."""
        return peer_id in self._in_flight

    @property
    def has_in_flight(self) -> bool:
        """True when a request is in flight, apart from those sent aside."""
        return any(not request.is_aside for request in self._in_flight.values())

    def sent(self, peer_id: int, now_ms: int, *, is_aside: bool = False) -> int:
        """Note a request to a peer that is ready; returns its correlation id.

        ``is_aside``: requests to other peers do not wait for its response.
        """
        assert self.is_ready(peer_id)
        correlation_id = self._next_correlation_id
        self._next_correlation_id += 1
        pace = AnswerPace(begun_ms=now_ms, window_ms=self._request_timeout_ms, floor_bytes=self._floor_bytes)
        self._in_flight[peer_id] = _InFlight(correlation_id, now_ms + self._request_timeout_ms, pace, is_aside)
        return correlation_id

    def progressed(self, peer_id: int, correlation_id: int, received_bytes: int, size_bytes: int, now_ms: int) -> bool:
        """Note how much of a response has arrived; True when that is enough to wait another request timeout."""
        request = self._in_flight.get(peer_id)
        if request is None or request.correlation_id != correlation_id:
            return False
        if not request.pace.advance(received_bytes, size_bytes, now_ms):
            return False
        request.deadline_ms = now_ms + self._request_timeout_ms
        return True

    def received(self, peer_id: int, correlation_id: int) -> bool:
        """Note a response; False when it answers no request in flight."""
        request = self._in_flight.get(peer_id)
        if request is None or request.correlation_id != correlation_id:
            return False
        del self._in_flight[peer_id]
        return True

    def back_off(self, peer_id: int, now_ms: int) -> None:
        """The last request failed: send the peer nothing during the retry back-off."""
        # At least 1 ms. Otherwise a silent leader would be asked again at once, and no bootstrap server would ever be
        # asked.
        self._backing_off[peer_id] = now_ms + max(1, self._retry_backoff_ms)

    def expire(self, now_ms: int) -> None:
        """End back-offs that are over; requests that timed out count as failed."""
        if self._backing_off:
            over = [peer_id for peer_id, deadline_ms in self._backing_off.items() if deadline_ms <= now_ms]
            for peer_id in over:
                del self._backing_off[peer_id]
        if self._in_flight:  # these run in every step, and mostly there is nothing or one request
            late = [peer_id for peer_id, request in self._in_flight.items() if request.deadline_ms <= now_ms]
            for peer_id in late:
                del self._in_flight[peer_id]
                self.back_off(peer_id, now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `expire` must run next (mono ms); None when nothing is pending."""
        earliest_ms: int | None = None
        for deadline_ms in self._backing_off.values():
            if earliest_ms is None or deadline_ms < earliest_ms:
                earliest_ms = deadline_ms
        for request in self._in_flight.values():
            if earliest_ms is None or request.deadline_ms < earliest_ms:
                earliest_ms = request.deadline_ms
        return earliest_ms

    def choose(self, peers: Sequence[Peer], rng: Random) -> Peer | None:
        """A ready peer, from a random start in cyclic order; None while a request not sent aside is in flight."""
        if self.has_in_flight or not peers:
            return None
        start = rng.randrange(len(peers))
        return next((peer for peer in (*peers[start:], *peers[:start]) if self.is_ready(peer.id)), None)
