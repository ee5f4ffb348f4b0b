"""The client of several nodes: goes on where nothing was changed, stops where that is unknown, and resumes watches."""

from __future__ import annotations

import threading
from itertools import islice
from typing import Any

import pytest

from pykraft.errors import CommandRejectedError, CompactedError, OutcomeUnknownError, QuorumUnavailableError, UsageError
from pykraft.kv import client as client_module
from pykraft.kv.client import KeyValueClient
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
        client(other.url, timeout_s=0.05).ask("/v1/get", {}, changes=False)
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
    "url", ["ftp://a:1", "http://", "http://a:x", "http://a:0", "http://a:1/path", "http://u:p@a:1", "http://[::1", ""]
)
def test_what_is_not_a_node_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match=r"--url .*: a node is http://host:port"):
        client(url)


def test_addresses_have_a_scheme_or_not_and_there_are_some() -> None:
    assert client("localhost:7080", "https://[::1]", "http://a/")._nodes == [
        (False, "localhost", 7080),
        (True, "::1", 443),
        (False, "a", 80),
    ]
    for urls in ((), [f"http://a:{port}" for port in range(1, 17)]):
        with pytest.raises(UsageError, match="give 1 to 15 addresses"):
            client(*urls)
