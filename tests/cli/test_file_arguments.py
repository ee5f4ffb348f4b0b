"""Every option and argument that names a file or folder, with one that is not there: one rule for all commands.

What a command reads must exist, and a file that it writes needs an existing folder: otherwise the status is 2, the path
is named, and nothing was done. What a command fills with files of its own it makes itself.
"""

from pathlib import Path

import click
import pytest

from lab.cli.main import pykraft
from pykraft.cli.errors import EXIT_USAGE, run_with_exit_codes
from pykraft.cli.parsing.value import ExistingPath, NewFile, NewFolder
from tests.cli.command_tree import leaves

BOOTSTRAP = "--bootstrap-controller localhost:9"
ABSENT = "absent/x"

# Command and option or argument: the rest of the command line.
REFUSED: dict[str, str] = {
    "append file": f"{BOOTSTRAP} {ABSENT}",
    "append command_config": f"{BOOTSTRAP} --command-config {ABSENT}",
    "audit directories": ABSENT,
    "audit journals": f". --journal {ABSENT}",
    "audit report": f". --report {ABSENT}",
    "bench raft folders": f"--dir {ABSENT} --peer none",
    "bench raft kafka_libs": f"--kafka-libs {ABSENT}",
    "chaos kafka_libs": f"--java --kafka-libs {ABSENT}",
    "chaos folder": f"--dir {ABSENT}",
    "dump files": ABSENT,
    "kv del command_config": f"--url https://127.0.0.1:1 --command-config {ABSENT} k",
    "kv get command_config": f"--url https://127.0.0.1:1 --command-config {ABSENT} k",
    "kv lock command_config": f"--url https://127.0.0.1:1 --command-config {ABSENT} k true",
    "kv put command_config": f"--url https://127.0.0.1:1 --command-config {ABSENT} k v",
    "kv watch command_config": f"--url https://127.0.0.1:1 --command-config {ABSENT} k",
    "kv del token_file": f"--url http://127.0.0.1:1 --token-file {ABSENT} k",
    "kv get token_file": f"--url http://127.0.0.1:1 --token-file {ABSENT} k",
    "kv lock token_file": f"--url http://127.0.0.1:1 --token-file {ABSENT} k true",
    "kv put token_file": f"--url http://127.0.0.1:1 --token-file {ABSENT} k v",
    "kv serve config_path": f"--config {ABSENT}",
    "kv watch token_file": f"--url http://127.0.0.1:1 --token-file {ABSENT} k",
    "learn page": f"first-election --html {ABSENT}",
    "local down path": f"--dir {ABSENT}",
    "local status path": f"--dir {ABSENT}",
    "machine skip command_config": f"{BOOTSTRAP} --command-config {ABSENT} --offset 4",
    "metadata show command_config": f"{BOOTSTRAP} --command-config {ABSENT}",
    "metadata diff command_config": f"{BOOTSTRAP} --since 1 --command-config {ABSENT}",
    "metadata history command_config": f"{BOOTSTRAP} --command-config {ABSENT}",
    "metadata find command_config": f"{BOOTSTRAP} --command-config {ABSENT} text",
    "metadata show directories": ABSENT,
    "metadata diff directories": f"--since 1 {ABSENT}",
    "metadata history directories": ABSENT,
    "metadata find directories": f"text {ABSENT}",
    "pipeline package file": ABSENT,
    "pipeline report page": f"--tables tables --html {ABSENT}",
    "pipeline report beside": f"--tables tables --beside {ABSENT}",
    "pipeline status checkpoint": f"--tables tables --checkpoint {ABSENT}",
    "pipeline upkeep root": f"--tables {ABSENT}",
    "quorum add-controller command_config": f"{BOOTSTRAP} --command-config {ABSENT}",
    "quorum describe command_config": f"{BOOTSTRAP} --command-config {ABSENT}",
    "quorum reload directory": ABSENT,
    "quorum remove-controller command_config": f"{BOOTSTRAP} --command-config {ABSENT} -i 1 -d {'B' * 22}",
    "quorum transfer command_config": f"{BOOTSTRAP} --command-config {ABSENT} --to 1",
    "quorum upgrade command_config": f"{BOOTSTRAP} --command-config {ABSENT} --feature kraft.version=1",
    "server file": ABSENT,
    "server config_path": f"--config {ABSENT}",
    "server log_file": f"--log-file {ABSENT}",
    "sim replay scenario_files": f"--seed 1 --scenario {ABSENT}",
    "sim replay page": f"--seed 1 --html {ABSENT}",
    "sim report files": ABSENT,
    "sim report scenario_files": f"{Path(__file__)} --scenario {ABSENT}",
    "sim report page": f"{Path(__file__)} --html {ABSENT}",
    "sim run scenario_files": f"--seeds 1 --scenario {ABSENT}",
    "sim run out": f"--seeds 1 --out {ABSENT}",
    "sim run report": f"--seeds 1 --report {ABSENT}",
    "storage format path": f"--config {ABSENT} -t c",
    "storage info path": f"--config {ABSENT}",
    "tail command_config": f"{BOOTSTRAP} --command-config {ABSENT}",
    "users list path": f"--file {ABSENT}",
    "users remove path": f"--file {ABSENT} alice",
    "verify directory": ABSENT,
}
MADE: dict[str, str] = {
    "users add path": "the file of the users",
    "certs folder": "the folder of the certificates",
    "demo report_path": "the folder of the report",
    "demo data_path": "the folder of the quorum and the tables",
    "local up path": "the folder of the quorum",
    "new folder": "the folder of the project",
    "pipeline run checkpoint": "the checkpoint of the stream",
    "pipeline run root": "the folder of the tables",
    "sim run folder": "the folder of the pages",
}
"""Folders that the command makes, with their parents, to put its own files into them."""
ELSEWHERE: dict[str, str] = {
    "kv serve credentials_file": "needs the configuration of a node: tests/kv/test_service.py",
    "pipeline report root": "needs Spark: tests/cli/pipeline/test_command.py",
    "pipeline run command_config": "needs Spark: tests/cli/pipeline/test_command.py",
    "pipeline status root": "needs Spark: tests/cli/pipeline/test_command.py",
    "server clone": "hidden: the script in a clone gives it",
}


def test_every_file_and_folder_is_in_the_table() -> None:
    kinds = (click.Path, ExistingPath, NewFile, NewFolder)
    found = {
        f"{name.removeprefix('pykraft ')} {param.name}"
        for name, command in leaves()
        for param in command.params
        if isinstance(param.type, kinds)
    }
    assert found == REFUSED.keys() | MADE.keys() | ELSEWHERE.keys()


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_there_is_a_wrong_argument_and_nothing_is_made(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["pykraft", *case.split()[:-1], *REFUSED[case].split()])
    with pytest.raises(SystemExit) as ended:
        run_with_exit_codes(pykraft)
    out, err = capsys.readouterr()
    assert ended.value.code == EXIT_USAGE, err
    assert out == ""
    [line] = err.splitlines()
    assert line.startswith("pykraft: ")
    assert "absent" in line
    assert list(tmp_path.iterdir()) == []
