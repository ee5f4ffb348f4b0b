"""``pykraft verify``: damage with file, position and repair, as text and as JSON, and its own exit status."""

import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pykraft.cli.verify import verify
from pykraft.log.offline.verify_findings import FINDINGS_MAX
from tests.log.data_directory import batch_size, flip, make_node, segments


@pytest.fixture
def node(tmp_path: Path) -> Path:
    """The partition directory of a node that was stopped in order."""
    return make_node(tmp_path / "data")


def run(*words: object) -> Result:
    return CliRunner().invoke(verify, [str(word) for word in words])


def test_a_sound_directory_is_summed_up(node: Path) -> None:
    result = run(node.parent)
    size = sum(path.stat().st_size for path in segments(node))
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        f"{node}: offsets 0 to 60 (exclusive), epochs 1 to 2, 60 batches in 3 segments, {size} bytes, "
        "recovery point 60\nNo damage found in 1 Raft partition.\n"
    )


def test_damage_is_named_with_what_to_do(node: Path) -> None:
    path = segments(node)[1]
    flip(path, batch_size(path) + 90)
    (node / "quorum-state.tmp").write_bytes(b"")
    result = run(node)
    first, advice, note, _ = result.stdout.splitlines()
    assert result.exit_code == 4
    assert first.startswith(f"{path}: at position {batch_size(path)}: expected CRC ")
    assert advice.startswith(
        "  what to do: this node is the only voter, so no other one has what is lost here. Do not empty"
    )
    assert note.startswith(f"note: {node / 'quorum-state.tmp'}: is left over")
    assert result.stderr == f"pykraft: {node}: 1 place damaged\n"


def test_json_is_one_document(node: Path) -> None:
    flip(segments(node)[0], 80)
    result = run(node, "--json")
    assert result.exit_code == 4
    document = json.loads(result.stdout)
    (damage,) = document.pop("damage")
    assert {key: damage[key] for key in ("file", "position")} == {"file": str(segments(node)[0]), "position": 0}
    assert set(damage) == {"file", "position", "expected", "found", "whatToDo"}
    (partition,) = document.pop("partitions")
    assert partition["epochs"] == [{"epoch": 1, "startOffset": 1}, {"epoch": 2, "startOffset": 30}]
    assert (partition["endOffset"], partition["recoveryPoint"], partition["batches"]) == (60, 60, 59)
    assert document == {"directory": str(node), "isSound": False, "damageCount": 1, "notesCount": 0, "notes": []}


def test_more_than_can_be_kept_is_counted(node: Path) -> None:
    for at in range(FINDINGS_MAX + 2):
        (node / f"strange {at}").write_bytes(b"")
    assert "and 2 more notes" in run(node).stdout.splitlines()


@pytest.mark.parametrize("name", ["", "absent", "file"])
def test_what_is_no_directory_is_refused_by_the_usage(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("")
    result = run(*([tmp_path / name] if name else []))
    assert result.exit_code == 2
    assert "DIRECTORY" in result.stderr


def test_the_bar_is_shown_when_asked_for_and_not_in_a_pipe(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    assert "%" not in run(node).output
    verify.main([str(node), "--progress", "always"], standalone_mode=False)
    assert "kB" in stream.getvalue() or "bytes" in stream.getvalue()
