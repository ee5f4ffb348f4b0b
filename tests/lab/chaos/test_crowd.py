"""Many clients connect without waiting for each other, send their bytes, and disconnect."""

from __future__ import annotations

import socket
from contextlib import closing

from lab.chaos.crowd import FETCHES_PER_READER, Crowd, greedy_words
from pykraft.local.ports import HOST
from pykraft.protocol.api import decode_request_body, decode_request_header
from pykraft.protocol.messages import ApiKey


def test_a_crowd_says_its_words_and_goes_away() -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        with closing(Crowd(port, 3, b"words")):
            accepted = [server.accept()[0] for _ in range(3)]
            assert [each.recv(100) for each in accepted] == [b"words"] * 3
        assert [each.recv(100) for each in accepted] == [b""] * 3
        for each in accepted:
            each.close()


def test_a_crowd_waits_for_nobody() -> None:
    with socket.create_server((HOST, 0), backlog=1) as server:
        with closing(Crowd(server.getsockname()[1], 50, b"words")):
            pass
        port = server.getsockname()[1]
    with closing(Crowd(port, 3, b"words")), closing(Crowd(port, 3)):
        pass


def test_a_greedy_reader_asks_for_everything() -> None:
    words = greedy_words()
    bodies = []
    while words:
        size_bytes = int.from_bytes(words[:4])
        request, words = words[4 : 4 + size_bytes], words[4 + size_bytes :]
        header = decode_request_header(request)
        assert header.api_key == ApiKey.FETCH
        bodies.append(decode_request_body(header, request))
    assert len(bodies) == FETCHES_PER_READER
    assert {body["max_bytes"] for body in bodies} == {2**31 - 1}
    assert bodies[0]["topics"][0]["topic"] == "__raft_performance_test"
