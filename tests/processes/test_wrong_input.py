"""Every command with wrong input, as a process: one line that says what is wrong, a documented status, no traceback.

Commands that speak to a quorum have their own tests of this kind beside them.
"""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from pykraft.local.child import wait_until
from tests.log.data_directory import FIRST, make_node

pytestmark = pytest.mark.processes

HUGE = "9" * 40
NODE = "node.id=1\nlisteners=CONTROLLER://localhost:0\ncontroller.listener.names=CONTROLLER\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What commands are pointed at: each name says what is wrong with it."""
    folder = tmp_path_factory.mktemp("wrong")
    (folder / "directory").mkdir()
    (folder / "empty").write_bytes(b"")
    (folder / "garbage").write_bytes(bytes(range(256)) * 40)
    (folder / "text").write_text("hello\n")
    (folder / "no-voters.properties").write_text(NODE + "log.dirs=data\n")
    (folder / "tls.properties").write_text(
        "node.id=1\nlisteners=SASL_SSL://localhost:9093\ncontroller.listener.names=SASL_SSL\nlog.dirs=data\n"
        "controller.quorum.voters=1@localhost:9093\n"
    )
    (folder / "huge.properties").write_text(f"node.id={HUGE}\n")
    (folder / "file-as-log-dir.properties").write_text(
        "node.id=1\nlisteners=CONTROLLER://localhost:9093\ncontroller.listener.names=CONTROLLER\n"
        f"log.dirs={folder}/text\ncontroller.quorum.voters=1@localhost:9093\n"
    )
    logs = folder / "logs"
    logs.mkdir()
    (logs / f"{FIRST}.log").write_bytes(bytes(range(256)) * 40)
    (logs / f"{FIRST}.index").write_bytes(b"\xff" * 77)
    (logs / f"{FIRST}.timeindex").write_bytes(b"\xff" * 77)
    for name in ("quorum-state", "quorum-state.check", "recovery-point", "leader-epoch-checkpoint"):
        (logs / name).write_bytes(b"\xff\0" * 50)
    (logs / "partition.metadata").write_bytes(b"\xff")
    named = folder / os.fsdecode(b"caf\xe9")
    named.mkdir()
    (named / f"{FIRST}.log").write_bytes(b"")
    make_node(folder / "sound")
    loop = folder / "loop"
    loop.symlink_to(loop)
    return folder


# command line: (exit status, word that standard error has)
CASES: list[tuple[str, int, str]] = [
    ("storage", 2, "Usage"),
    ("storage format --config garbage --cluster-id c", 2, "garbage: a properties file is text"),
    ("storage format --config huge.properties --cluster-id c", 2, "huge.properties: property"),
    ("storage format --config tls.properties --cluster-id c", 2, "sasl.enabled.mechanisms is required"),
    ("storage format --config no-voters.properties --cluster-id c", 2, "no-voters.properties: line 2: property"),
    ("storage format --config file-as-log-dir.properties --cluster-id c", 3, "text"),
    ("storage format --config loop --cluster-id c", 2, "loop: "),
    (f"storage format --config huge.properties --cluster-id {HUGE * 10}", 2, "--cluster-id"),
    ("storage info --config garbage", 2, "garbage: a properties file is text"),
    ("storage info --config file-as-log-dir.properties", 1, ""),
    ("audit garbage", 2, "garbage"),
    ("verify garbage", 2, "garbage"),
    ("verify loop", 2, "loop"),
    ("verify directory", 2, "it holds nothing"),
    ("verify logs", 4, "damaged"),
    ("verify logs --json", 4, "damaged"),
    ("verify caf\udce9", 0, ""),
    (f"dump absent/{FIRST}.log", 2, "No such file"),
    ("dump text", 2, "text: dump does not know this kind of file"),
    (f"dump logs/{FIRST}.log", 1, "1 problem found"),
    (f"dump logs/{FIRST}.index", 1, "problem"),
    (f"dump logs/{FIRST}.timeindex", 1, "problem"),
    ("dump logs/quorum-state", 1, "1 problem found"),
    ("dump logs/quorum-state.check", 1, "1 problem found"),
    ("dump logs/recovery-point", 1, "1 problem found"),
    ("dump logs/leader-epoch-checkpoint", 1, "1 problem found"),
    ("dump logs/partition.metadata --json", 1, "1 problem found"),
    (f"dump caf\udce9/{FIRST}.log", 0, ""),
    ("server --config huge.properties", 2, "huge.properties: property"),
    ("server --config tls.properties", 2, "sasl.enabled.mechanisms is required"),
    ("server --config file-as-log-dir.properties", 3, "text"),
    (f"server --config text --record-size {HUGE}", 2, ""),
]


SOUND = f"sound/__raft_performance_test-0/{FIRST}.log"
TALKATIVE = [
    "--help",
    "version",
    "version --verbose",
    "completion zsh",
    "storage random-uuid",
    "verify sound",
    "verify sound --json",
    f"dump {SOUND}",
    "server --help",
]


def command(line: str) -> list[str]:
    return [sys.executable, "-m", "lab", *line.split(" ")]


def run(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(line), cwd=folder, capture_output=True, text=True, errors="replace", timeout=60, check=False
    )


def through_shell(folder: Path, line: str, redirection: str) -> tuple[int, str]:
    """Exit status and standard error of a command whose ends are not what it expects."""
    program = shlex.join(command(line))
    subprocess.run(["bash", "-c", f"{program} {redirection} 2>err; echo $? >status"], cwd=folder, check=True)
    return int((folder / "status").read_text()), (folder / "err").read_text()


@pytest.mark.parametrize(("line", "status", "named"), CASES, ids=[line for line, _, _ in CASES])
def test_wrong_input_is_told(folder: Path, line: str, status: int, named: str) -> None:
    done = run(folder, line)
    assert "Traceback" not in done.stderr + done.stdout
    assert done.returncode == status, done
    assert named in done.stderr
    assert len(done.stderr.splitlines()) <= 16


def test_without_a_command_the_help_is_shown(folder: Path) -> None:
    done = subprocess.run(command("")[:-1], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("Usage: pykraft")


@pytest.mark.parametrize("line", TALKATIVE)
def test_whatever_the_output_is_there_is_no_story(folder: Path, line: str) -> None:
    expected: Sequence[tuple[str, int, str]] = [
        ("</dev/null >/dev/null", 0, ""),
        (">/dev/full", 1, "No space left on device"),
        (">&-", 0, ""),
        ("<&-", 0, ""),
    ]
    for redirection, status, named in expected:
        found_status, found = through_shell(folder, line, redirection)
        assert found_status == status, redirection
        assert named in found
        assert "Traceback" not in found
        assert "Exception" not in found


@pytest.mark.parametrize("line", TALKATIVE)
def test_a_reader_that_went_away_ends_it_without_a_word(folder: Path, line: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            command(line), cwd=folder, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (1, "")


def test_without_standard_error_the_status_is_the_same(folder: Path) -> None:
    for line, status in (("verify sound", 0), ("verify logs", 4), ("verify absent", 2), ("version", 0)):
        program = shlex.join(command(line))
        done = subprocess.run(["bash", "-c", f"{program} 2>&- >/dev/null"], cwd=folder, check=False)
        assert done.returncode == status, line


@pytest.mark.parametrize("line", [f"dump fifo/{FIRST}.log", "verify fifo"])
def test_an_interrupt_is_one_line(folder: Path, line: str) -> None:
    """Opening a fifo waits for its writer, who never comes."""
    (folder / "fifo").mkdir(exist_ok=True)
    path = folder / f"fifo/{FIRST}.log"
    if not path.exists():
        os.mkfifo(path)
    process = subprocess.Popen(command(line), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def waits_for_writer() -> bool:
        return "wait_for_partner" in Path(f"/proc/{process.pid}/wchan").read_text()

    wait_until(waits_for_writer, "the command to wait for the fifo")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (-signal.SIGINT, "pykraft: interrupted\n")
    assert "Traceback" not in out
