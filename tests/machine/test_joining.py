"""The documented program: processes that find each other by SRV records join by themselves, and come back so."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pykraft.client import Admin, parse_bootstrap
from pykraft.errors import PykraftError
from pykraft.local.child import Child, Children, wait_until
from pykraft.local.voters import HOST, SOURCES, free_ports
from tests.client.test_discovery import name_server
from tests.documented.blocks import blocks

NAME = "_kraft._tcp.counters"


@pytest.mark.processes
async def test_three_processes_become_voters_and_the_first_one_comes_back(tmp_path: Path) -> None:
    for block in (*blocks("docs/embedding.md"), *blocks("docs/membership.md")):
        if block.file_name in {"counters.py", "elastic.py"}:
            (tmp_path / block.file_name).write_text(block.text)
    ports = dict(enumerate(free_ports(3), start=1))
    records: dict[str, list[str]] = {}
    async with name_server(records) as (_, at):
        source = f"{at}{NAME}"
        with Children() as children:

            def start(node_id: int, source: str) -> Child:
                code = (
                    f"import os, runpy; os.chdir({str(tmp_path)!r}); runpy.run_path('elastic.py', run_name='__main__')"
                )
                words = [sys.executable, "-c", code, str(node_id), f"{HOST}:{ports[node_id]}", source]
                path = os.pathsep.join([str(SOURCES), str(tmp_path)])
                log = tmp_path / f"{node_id}-{len(source)}.log"
                environment = {"PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}
                return children.start(f"node {node_id}", words, log, environment=environment)

            first, *others = nodes = [start(1, "first"), start(2, source), start(3, source)]
            await until(lambda: "start number" in first.log(), nodes)
            assert not any("start number" in node.log() for node in others), "they have found nothing yet"
            records[NAME] = [f"0 0 {ports[1]} localhost."]
            await until(lambda: voters(ports[2]) == [1, 2, 3], nodes)
            first.kill()
            records[NAME] = [f"0 0 {ports[node_id]} localhost." for node_id in (1, 2, 3)]
            again = start(1, source)
            await until(lambda: "start number 4" in again.log(), [*others, again])
            await until(lambda: voters(ports[3]) == [1, 2, 3], [*others, again])


async def until(holds: Callable[[], bool], nodes: list[Child]) -> None:
    """Wait in another thread, since the DNS server needs the loop."""
    await asyncio.to_thread(wait_until, holds, "the nodes", alive=nodes)


def voters(port: int) -> list[int]:
    """The voters, as this node or the leader that it knows says; none while they do not answer."""

    async def ask() -> list[int]:
        try:
            async with Admin(parse_bootstrap("node", f"{HOST}:{port}")) as admin:
                return sorted(int(voter.key.id) for voter in (await admin.describe_quorum()).voters)
        except PykraftError:
            return []

    return asyncio.run(ask())
