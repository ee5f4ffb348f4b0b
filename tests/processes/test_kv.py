"""The key-value service as a user meets it: three nodes, a dead leader, a watch that goes on, a lock that is kept."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pykraft.kv.service import status_of
from pykraft.local.child import wait_until
from pykraft.local.voters import HOST, SOURCES
from pykraft.types import Endpoint
from tests.processes.commands import Finished, assert_one_line, run

pytestmark = pytest.mark.processes


class Quorum:
    """What ``pykraft kv serve`` printed of its nodes."""

    def __init__(self, text: str) -> None:
        lines = [line.split() for line in text.splitlines() if line.startswith("node ")]
        self.urls = [words[2].rstrip(",") for words in lines]
        self.pids = [int(words[4]) for words in lines]

    def kv(self, command: str, *words: str) -> Finished:
        return run("kv", command, "--url", ",".join(self.urls), *words)

    @property
    def leader_id(self) -> int:
        """As node 1 or 2 knows it."""
        for url in self.urls:
            host, _, port = url.removeprefix("http://").partition(":")
            found = status_of(Endpoint(host, int(port))).get("leader_id")
            if found is not None:
                return int(found)
        raise AssertionError("no node knows a leader")


@contextmanager
def started(*words: str, ready: Callable[[str], bool] = lambda text: False) -> Iterator[tuple[Any, list[str]]]:
    """A command that goes on while the block runs, and its lines; the block begins once one of them is ``ready``."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pykraft", *words],
        env=os.environ | {"PYTHONPATH": str(SOURCES)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    lines: list[str] = []
    assert process.stdout is not None
    reader = threading.Thread(target=lambda: lines.extend(iter(process.stdout.readline, "")))  # type: ignore[union-attr]
    reader.start()
    try:
        wait_until(lambda: any(map(ready, lines)) or process.poll() is not None, f"{words}: {lines}")
        yield process, lines
    finally:
        process.terminate()
        process.wait(60)
        reader.join()
        process.stdout.close()


def extended(lines: list[str], process: Any, count: int) -> list[str]:
    """The lines, once there are so many."""
    wait_until(lambda: len(lines) >= count or process.poll() is not None, f"line {count}")
    return lines[:count]


def test_a_store_survives_its_leader_and_so_do_watch_and_lock(tmp_path: Path) -> None:
    with started("kv", "serve", "--http", f"{HOST}:0", ready=lambda line: "Ctrl-C ends" in line) as (serving, said):
        quorum = Quorum("".join(said))
        assert quorum.kv("put", "color", "red").stdout == "revision 1\n"
        for url in quorum.urls:
            assert run("kv", "get", "color", "--url", url).stdout == "red\n", "linearizable on every node"

        leader_id = quorum.leader_id
        # The watch begins at the node that dies.
        order = [quorum.urls[leader_id - 1], *quorum.urls]
        url = ",".join(dict.fromkeys(order))
        watching = started("kv", "watch", "color", "--from", "1", "--url", url, ready=lambda line: "red" in line)
        begun, ended = tmp_path / "begun", tmp_path / "ended"
        script = f'echo "$PYKRAFT_LOCK_TOKEN"; touch {begun}; until [ -e {ended} ]; do sleep 0.05; done; exit 9'
        holding = started(
            *("kv", "lock", "--url", url, "--ttl", "30", "tool", "--", "sh", "-c", script),
            ready=lambda line: line.strip().isdecimal(),
        )
        with watching as (watch, changes), holding as (lock, _):
            os.kill(quorum.pids[leader_id - 1], signal.SIGKILL)
            assert quorum.kv("put", "color", "blue").returncode == 0
            assert quorum.kv("get", "color").stdout == "blue\n"
            assert [line.split("\t")[3] for line in extended(changes, watch, 2)] == ["red\n", "blue\n"]
            other = quorum.kv("lock", "tool", "--wait", "0.1", "--", "true")
            assert_one_line(other, 1, "lock 'tool' was not free within 0.1 s: 1 ahead")
            ended.touch()
            assert lock.wait(60) == 9
        token = int(json.loads(quorum.kv("lock", "tool", "--json", "--", "true").stdout)["token"])
        assert token > 1
        assert serving.poll() is None
    assert serving.returncode == -signal.SIGTERM
    assert said[-1] == "pykraft: ended by SIGTERM\n"
    assert f"pykraft: node {leader_id} ended with -9; 2 of 3 are left\n" in said
    done = quorum.kv("get", "color", "--timeout", "0.5")
    assert_one_line(done, 1, "no node answered in time; the last one: 127.0.0.1:")
