"""The client of several nodes: goes on where nothing was changed, stops where that is unknown, and resumes watches."""

import threading
from itertools import islice
from typing import Any

import pytest

from pykraft.errors import (
    CommandRejectedError,
    CompactedError,
    LeaseLostError,
    OutcomeUnknownError,
    QuorumUnavailableError,
    UsageError,
)
from pykraft.kv import client as client_module
from pykraft.kv.client import ClientLease, KeyValueClient
from pykraft.security.settings import Security
from tests.kv.scripted_node import Answer, error, scripted

DOWN = "http://127.0.0.1:9"


def client(*urls: str, timeout_s: float = 10) -> KeyValueClient:
    return KeyValueClient(urls, timeout_s=timeout_s)


def test_the_next_node_is_asked_when_one_is_down_or_has_changed_nothing() -> None:
    with (
        scripted(lambda path, body: (503, error("not_applied"))) as busy,
        scripted(lambda path, body: (200, {"revision": 1})) as good,
    ):
        asked = client(DOWN, busy.url, good.url)
        assert asked.ask("/v1/put", {"key": "a", "value": "b"}, changes=True) == {"revision": 1}
        assert [path for path, _ in busy.asked] == ["/v1/put"]
        [(_, body)] = good.asked
        assert (body["key"], body["value"]) == ("a", "b")
        assert 0 < body["timeout_ms"] <= 5_000
        # And the one that answered is asked first the next time.
        asked.ask("/v1/get", {"key": "a"}, changes=False)
        assert len(busy.asked) == 1


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "the change may be applied, or not"),
        ((504, error("unknown", "unknown")), "it is unknown"),
        ((500, b"Internal Server Error"), "HTTP status 500 and no word of the change"),
        ((200, b"<html>"), "HTTP status 200 and no word of the change"),
    ],
)
def test_a_change_with_an_unknown_outcome_is_not_sent_again_but_a_read_is(answer: Answer, told: str) -> None:
    with scripted(lambda path, body: answer) as doubtful, scripted(lambda path, body: (200, {"a": 1})) as good:
        with pytest.raises(OutcomeUnknownError, match=told):
            client(doubtful.url, good.url).ask("/v1/put", {}, changes=True)
        assert good.asked == []
        assert client(doubtful.url, good.url).ask("/v1/get", {}, changes=False) == {"a": 1}


@pytest.mark.parametrize(
    ("status", "content", "kind"),
    [
        (400, error("invalid"), UsageError),
        (404, error("no_such_path"), UsageError),
        (409, error("rejected"), CommandRejectedError),
        (410, error("compacted", oldest_revision=7), CompactedError),
        (413, error("too_large"), UsageError),
    ],
)
def test_an_error_that_every_node_would_give_is_raised(status: int, content: Any, kind: type[Exception]) -> None:
    with scripted(lambda path, body: (status, content)) as node, pytest.raises(kind) as caught:
        client(node.url, DOWN).ask("/v1/get", {}, changes=False)
    assert str(caught.value) == content["error"]["message"]
    if isinstance(caught.value, CompactedError):
        assert caught.value.oldest_revision == 7


def test_no_node_in_time_says_what_the_last_one_said() -> None:
    with pytest.raises(QuorumUnavailableError, match=r"no node answered in time.*connection refused"):
        client(DOWN, timeout_s=0.05).ask("/v1/get", {}, changes=True)
    with scripted(lambda path, body: (200, b"[]")) as other, pytest.raises(QuorumUnavailableError) as caught:
        client(other.url, timeout_s=0.5).ask("/v1/get", {}, changes=False)
    assert "this is not a node with a key-value store" in str(caught.value)


def test_a_silent_node_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "ASK_TIMEOUT_S", 0.02)
    monkeypatch.setattr(client_module, "ANSWER_S", 0.02)
    release = threading.Event()

    def silent(path: str, body: dict[str, Any]) -> Answer:
        release.wait()
        return None

    with scripted(silent) as node, scripted(lambda path, body: (200, {"a": 1})) as good:
        try:
            assert client(node.url, good.url).ask("/v1/get", {}, changes=False) == {"a": 1}
        finally:
            release.set()


def change(revision: int, key: str) -> dict[str, Any]:
    return {"revision": revision, "key": key, "item": None}


def test_a_watch_goes_on_at_another_node_within_a_revision() -> None:
    kept = [change(2, "a"), change(3, "b"), change(3, "c"), change(3, "d"), change(4, "e")]

    def lines(body: dict[str, Any], last: list[dict[str, Any]]) -> Answer:
        begin = body["from_revision"] or 2
        return [{"from_revision": begin}, {}, *(one for one in kept if one["revision"] >= begin), *last]

    def cut(path: str, body: dict[str, Any]) -> Answer:
        # It ends after the second change of revision 3.
        return [*lines(body, [])[:5], error("not_running")]  # type: ignore[index]

    with scripted(cut) as first, scripted(lambda path, body: lines(body, [])) as second:
        changes = client(first.url, DOWN, second.url).watch({"prefix": ""}, None)
        assert [one["key"] for one in islice(changes, 5)] == ["a", "b", "c", "d", "e"]
        assert [body["from_revision"] for _, body in second.asked] == [3]


def test_a_watch_ends_with_an_error_that_no_other_node_can_mend() -> None:
    late = [{"from_revision": 2}, change(2, "a"), error("compacted", oldest_revision=9)]
    with scripted(lambda path, body: late) as node:
        changes = client(node.url).watch({"key": "a"}, 2)
        assert next(changes)["revision"] == 2
        with pytest.raises(CompactedError) as caught:
            next(changes)
        assert caught.value.oldest_revision == 9
    with (
        scripted(lambda path, body: (410, error("compacted", oldest_revision=9))) as node,
        pytest.raises(CompactedError),
    ):
        next(client(node.url).watch({"key": "a"}, 2))
    with pytest.raises(QuorumUnavailableError):
        next(client(DOWN, timeout_s=0.05).watch({"key": "a"}, None))


def test_a_watch_whose_lines_are_cut_asks_again() -> None:
    answers: list[Any] = [(200, b'{"from_revision": 5}\n{"revis'), [{"from_revision": 5}, change(5, "a")]]
    with scripted(lambda path, body: answers.pop(0)) as node:
        assert next(client(node.url).watch({"key": "a"}, None)) == change(5, "a")
        assert [body["from_revision"] for _, body in node.asked] == [None, 5]


@pytest.mark.parametrize(
    "url", ["ftp://a:1", "http://", "http://a:x", "http://a:0", "http://a:1/path", "http://[::1", ""]
)
def test_what_is_not_a_node_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match=r"--url .*: a node is http://host:port"):
        client(url)


def test_addresses_have_a_scheme_or_not_and_there_are_some() -> None:
    assert [node[:3] for node in client("localhost:7080", "https://[::1]", "http://a/")._nodes] == [
        (False, "localhost", 7080),
        (True, "::1", 443),
        (False, "a", 80),
    ]
    for urls in ((), [f"http://a:{port}" for port in range(1, 17)]):
        with pytest.raises(UsageError, match="give 1 to 15 addresses"):
            client(*urls)


BASIC = "Basic YW5uOsOkIHA6QA=="  # ann:ä p:@


@pytest.mark.parametrize(
    ("user", "token", "demands"),
    [
        ("", "abc.DEF~1=", "Bearer abc.DEF~1="),
        ("ann:%C3%A4%20p:%40@", None, BASIC),
        ("ann:%C3%A4%20p:%40@", "abc", BASIC),
        ("ann@", None, "Basic YW5uOg=="),
    ],
)
def test_a_proxy_gets_what_it_demands(user: str, token: str | None, demands: str) -> None:
    def answer(path: str, body: dict[str, Any]) -> Answer:
        return [{"from_revision": 2}, change(2, "a")] if path == "/v1/watch" else (200, {"revision": 1})

    with scripted(answer, demands) as node:
        known = KeyValueClient([node.url.replace("//", f"//{user}")], timeout_s=10, token=token)
        assert known.ask("/v1/put", {}, changes=True) == {"revision": 1}
        assert next(known.watch({"key": "a"}, None))["key"] == "a"


@pytest.mark.parametrize("body", [b"", {"error": "invalid_token"}, {"error": {"message": "no"}}])
@pytest.mark.parametrize("status", [401, 403, 407])
def test_denied_credentials_are_said_at_once_and_not_shown(status: int, body: Any) -> None:
    with scripted(lambda path, _: (status, body)) as node:
        known = client(node.url.replace("//", "//ann:secret@"), DOWN)
        with pytest.raises(UsageError, match=f"HTTP status {status}: it demands other credentials") as caught:
            known.ask("/v1/put", {}, changes=True)
        assert "secret" not in str(caught.value)
        assert len(node.asked) == 1


@pytest.mark.parametrize("urls", ["http://ann:se,cret@h:1", "http://ann:se/cret@h", "ftp://ann:secret@h"])
def test_a_wrong_url_with_a_password_is_not_shown(urls: str) -> None:
    with pytest.raises(UsageError, match="--url its number 1: a node is") as caught:
        client(*urls.split(","))
    assert "se" not in str(caught.value).replace("user:password", "")


def test_protection_is_not_left_out_for_a_node_in_the_clear() -> None:
    security = Security.of_client({"security.protocol": "SSL"})
    with pytest.raises(UsageError, match="each node is https://"):
        KeyValueClient(["https://a", "http://b"], timeout_s=1, security=security)


@pytest.mark.parametrize("token", ["", "a b", "a\nX-Other: 1", "ä"])
def test_a_token_is_one_word(token: str) -> None:
    with pytest.raises(UsageError, match="the token is empty, or has characters"):
        KeyValueClient(["http://h"], timeout_s=1, token=token)


class Clock:
    """In place of the module time; each look takes a moment."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(client_module, "time", made)
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
