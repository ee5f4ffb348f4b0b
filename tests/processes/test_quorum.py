"""`pykraft quorum describe` as a process: a quorum without majority, and ports of other programs; no traceback."""

import http.server
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from lab.nodes.cluster import Cluster
from pykraft.local.child import Children
from pykraft.local.voters import HOST, QUICK, free_ports
from tests.processes.commands import Finished, assert_one_line, run

pytestmark = pytest.mark.processes


def ask(bootstrap: str, *options: str) -> list[Finished]:
    """Both commands, with the same words."""
    asked = ("--bootstrap-controller", bootstrap, "--timeout", "1", *options)
    return [run("quorum", *asked, "describe", "--status"), run("tail", *asked)]


def test_a_quorum_is_described_until_it_loses_its_majority(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, properties=QUICK)
    leader = cluster.start().node
    bootstrap = ",".join(f"{HOST}:{node.port}" for node in cluster.nodes.values())
    cluster.journal.wait_for_acknowledged(100, since=0)

    first = run("quorum", "--bootstrap-controller", bootstrap, "describe", "--status")
    assert first.stderr == ""
    assert first.stdout.splitlines()[1] == f"LeaderId:               {leader}"
    mark = cluster.journal.mark()
    cluster.nodes[leader].process.kill()
    second = run("quorum", "--bootstrap-controller", bootstrap, "describe", "--replication")
    cluster.journal.wait_for_acknowledged(1, since=mark, except_by=leader)
    assert second.stdout.splitlines()[1].split("\t")[6].strip() == "Leader", second
    assert second.stdout.splitlines()[1].split("\t")[0].strip() != str(leader)

    cluster.nodes[cluster.journal.leader_id()].process.kill()
    for done in ask(bootstrap, "--timeout", "2"):
        assert_one_line(done, 1, "within 2 s: ")


@contextmanager
def web_server() -> Iterator[int]:
    """A port that speaks HTTP."""
    with http.server.HTTPServer((HOST, 0), http.server.BaseHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@contextmanager
def greeter(greeting: bytes) -> Iterator[int]:
    """A port that says this to the first two who come, and then nothing more to anybody."""
    with closing(socket.create_server((HOST, 0))) as listening:
        taken: list[socket.socket] = []

        def greet() -> None:
            for _ in range(2):
                taken.append(listening.accept()[0])
                taken[-1].sendall(greeting)

        thread = threading.Thread(target=greet)
        thread.start()
        yield listening.getsockname()[1]
        thread.join()
        for each in taken:
            each.close()


NO_NODE = "did not answer ApiVersions within 1 s: is it a node of a quorum?"


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (web_server, NO_NODE),
        (partial(greeter, b""), NO_NODE),
        (partial(greeter, b"SSH-2.0-OpenSSH_9.2\r\n"), "the peer seems to speak SSH"),
    ],
    ids=["a web server", "silent", "SSH"],
)
def test_another_program_is_no_quorum(other: Callable[[], AbstractContextManager[int]], words: str) -> None:
    with other() as port:
        for done in ask(f"{HOST}:{port}"):
            assert_one_line(done, 1, words)


def test_nobody_and_nowhere_are_told_at_once() -> None:
    [port] = free_ports(1)
    for done in ask(f"{HOST}:{port}"):
        assert_one_line(done, 1, f"no node answers: {HOST}:{port}: connection refused")
    for done in ask("nowhere.invalid:9093"):
        assert_one_line(done, 1, "nowhere.invalid:9093: its name cannot be resolved ")
