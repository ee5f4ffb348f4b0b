"""``pykraft verify`` beside a writing node: what the node writes is never called damage, and real damage is."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from lab.nodes.cluster import JournalKeeper, PykraftNode
from pykraft.cli.verify import verify
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import free_ports
from tests.log.data_directory import flip

pytestmark = pytest.mark.processes

LOOKS = 10


def test_a_node_under_load_is_sound_running_and_killed(children: Children, tmp_path: Path) -> None:
    small = {"internal.metadata.log.segment.bytes": "100000"}
    journal = JournalKeeper(tmp_path / "journal.jsonl")
    ports = dict(zip((1,), free_ports(1), strict=True))
    node = PykraftNode(children, journal, tmp_path / "n1", node_id=1, ports=ports, properties=small)
    node.start()

    def segments() -> list[Path]:
        return sorted((tmp_path / "n1").glob("**/*.log"))

    wait_until(lambda: len(segments()) > 3, "some segments", alive=[node.process])
    directory = segments()[0].parent
    for _ in range(LOOKS):
        result = CliRunner().invoke(verify, [str(directory.parent)])
        assert result.exit_code == 0, result.output
    flip(segments()[0], 80)
    result = CliRunner().invoke(verify, [str(directory)])
    assert result.exit_code == 4
    assert f"{segments()[0]}: at position 0: expected CRC" in result.stdout
    flip(segments()[0], 80)
    node.process.kill()
    result = CliRunner().invoke(verify, [str(directory.parent)])
    assert result.exit_code == 0, result.output
