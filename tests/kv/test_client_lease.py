"""A lease and a lock of a program without a loop: kept, lost in time, waited for, given back."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.errors import LeaseLostError, QuorumUnavailableError
from pykraft.kv import client
from pykraft.kv.client import ClientLease, KeyValueClient
from tests.kv.scripted_node import Answer, error, scripted


class Clock:
    """In place of the module time; each look takes a moment."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(client, "time", made)
    return made


def node(**answers: Answer) -> Any:
    granted: dict[str, Answer] = {"/v1/lease/grant": (200, {"lease": 7}), "/v1/lease/revoke": (200, {"lease": 7})}
    given = {f"/v1/{name.replace('_', '/')}": answer for name, answer in answers.items()}
    return scripted(lambda path, body: {**granted, **given}[path])


def lease_at(url: str) -> ClientLease:
    """Of ten seconds."""
    return ClientLease(KeyValueClient([url], timeout_s=5), 10_000)


def test_a_lease_is_granted_kept_when_it_is_time_and_revoked(clock: Clock) -> None:
    with node(lease_keep=(200, {"lease": 7})) as scripted_node:
        with lease_at(scripted_node.url) as lease:
            assert lease.lease == 7
            assert lease.pause_s == pytest.approx(8 / 3)
            lease.keep()
            clock.now_s += 3
            assert lease.pause_s == 0
            lease.keep()
            assert lease.pause_s == pytest.approx(8 / 3)
        assert [path for path, _ in scripted_node.asked] == ["/v1/lease/grant", "/v1/lease/keep", "/v1/lease/revoke"]
        assert scripted_node.asked[0][1]["ttl_ms"] == 10_000
        assert scripted_node.asked[2][1]["lease"] == 7


def test_a_lease_that_nobody_keeps_is_lost_before_it_can_end(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    client = KeyValueClient(["http://127.0.0.1:9"], timeout_s=1)
    answers: list[Any] = [{"lease": 7}, QuorumUnavailableError("none"), QuorumUnavailableError("none"), {}]
    limits: list[float] = []

    def ask(path: str, body: Any, *, changes: bool, timeout_s: float = 0) -> Any:
        limits.append(timeout_s)
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            clock.now_s += timeout_s
            raise answer
        return answer

    monkeypatch.setattr(client, "ask", ask)
    with ClientLease(client, 3_000) as lease:
        clock.now_s += 1.2
        lease.keep()  # fails, and there is time for another try
        clock.now_s = 102.2
        with pytest.raises(LeaseLostError, match="lease 7 of 3000 ms could not be kept: none"):
            lease.keep()
    assert limits[1:3] == [pytest.approx(0.8), pytest.approx(0.2)]
    assert clock.now_s == pytest.approx(102.4), "given up after 80 % of its time"


def test_a_lease_that_has_ended_or_was_forgotten_is_lost(clock: Clock) -> None:
    with node(lease_keep=(409, error("lease_ended"))) as ended, lease_at(ended.url) as lease:
        clock.now_s += 3
        with pytest.raises(LeaseLostError, match="lease_ended"):
            lease.keep()
    with node() as never_asked, lease_at(never_asked.url) as lease:
        clock.now_s += 9
        with pytest.raises(LeaseLostError, match="could not be kept in time"):
            lease.keep()


def test_a_lock_is_waited_for_with_the_same_lease(clock: Clock) -> None:
    places = [{"held": False, "ahead": 2}, {"held": False, "ahead": 1}, {"held": True, "token": 5, "key": "k"}]

    def answer(path: str, body: dict[str, Any]) -> Answer:
        if path == "/v1/lock":
            clock.now_s += 1
            return 200, places.pop(0)
        return 200, {"lease": 7}

    with scripted(answer) as scripted_node:
        with lease_at(scripted_node.url) as lease:
            assert lease.lock("tool", "me", 60)["token"] == 5
        asked = [body for path, body in scripted_node.asked if path == "/v1/lock"]
        assert {(body["name"], body["lease"], body["holder"]) for body in asked} == {("tool", 7, "me")}
        assert asked[0]["wait_ms"] <= 2_667, "it comes back in time to keep the lease"


def test_a_lock_that_is_not_free_in_time(clock: Clock) -> None:
    with node(lock=(200, {"held": False, "ahead": 2})) as scripted_node:
        lacks = pytest.raises(QuorumUnavailableError, match="lock 'tool' was not free within 0 s: 2 ahead")
        with lease_at(scripted_node.url) as lease, lacks:
            lease.lock("tool", "me", 0)
        assert scripted_node.asked[-1][0] == "/v1/lease/revoke", "nobody waits for it any more"
