"""Wrong values, in process: one line that names the option or the file, the documented status, and no traceback.

`tests/processes/test_wrong_input.py` has the cases in which the process itself matters.
"""

from pathlib import Path

import pytest

from lab.cli.main import pykraft
from pykraft.cli.errors import run_with_exit_codes

NODE = "localhost:9"
ZERO_ID = "A" * 22


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with files that are none of those that a command expects."""
    (tmp_path / "dir").mkdir()
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("hello\n")
    (tmp_path / "garbage").write_bytes(bytes(range(256)) * 9)
    monkeypatch.chdir(tmp_path)
    return tmp_path


# Command line, and what standard error says; the status is 2.
USAGE: list[tuple[str, str]] = [
    ("tail", "--bootstrap-controller"),
    ("tail --bootstrap-controller localhost", "'localhost': a node is host:port"),
    ("tail --bootstrap-controller localhost:0", "a port from 1 to 65535"),
    ("tail --bootstrap-controller localhost:99999", "a port from 1 to 65535"),
    ("tail --bootstrap-controller :9092", "':9092': a node is host:port"),
    ("tail --bootstrap-controller ,", "give at least one host:port"),
    (f"tail --bootstrap-controller {NODE} --timeout -1", "--timeout -1: give more than 0"),
    (f"tail --bootstrap-controller {NODE} --timeout nan", "--timeout nan: give more than 0"),
    (f"tail --bootstrap-controller {NODE} --timeout 1e99", "--timeout 1e+99: give more than 0 and at most 86400"),
    (f"tail --bootstrap-controller {NODE} --from -5", "--from -5: give earliest, latest or an offset"),
    (f"tail --bootstrap-controller {NODE} --from {'9' * 30}", "give earliest, latest or an offset"),
    (f"tail --bootstrap-controller {NODE} --max-records 0", "--max-records"),
    (f"tail --bootstrap-controller {NODE} --command-config absent", "--command-config absent: No such file"),
    (f"tail --bootstrap-controller {NODE} --command-config dir", "--command-config dir: Is a directory"),
    (f"tail --bootstrap-controller {NODE} --command-config garbage", "garbage: a properties file is text"),
    ("quorum describe", "--bootstrap-controller, --bootstrap-server: give one of them"),
    (f"quorum --bootstrap-controller {NODE} decribe", "no such command decribe; did you mean pykraft quorum describe?"),
    (f"quorum --bootstrap-controller {NODE} transfer --to -1", "--to"),
    (f"quorum --bootstrap-controller {NODE} transfer --to 99999999999", "--to"),
    (f"quorum --bootstrap-controller {NODE} transfer --to 2 --catch-up nan", "--catch-up nan: give 0 to 60"),
    (f"quorum --bootstrap-controller {NODE} remove-controller -i 1 -d xyz", "'xyz' is not a Kafka UUID"),
    (f"quorum --bootstrap-controller {NODE} remove-controller -i 1 -d {ZERO_ID}", "reserved by Kafka; give another"),
    (f"quorum --bootstrap-controller {NODE} add-controller", "give --command-config"),
    (
        f"quorum --bootstrap-controller {NODE} add-controller --command-config absent",
        "--command-config absent: No such",
    ),
    (f"quorum --bootstrap-controller {NODE} upgrade --feature kraft.version=x", "give NAME=LEVEL"),
    (f"quorum --bootstrap-controller {NODE} upgrade --feature metadata.version=1", "only the feature kraft.version"),
    ("storage format -c text -t bad!id", "--cluster-id 'bad!id': give 1 to 255 letters"),
    ("storage info -c dir", "--config dir: Is a directory"),
    ("sim run --seeds 5:1", "--seeds 5:1: this range has no seeds"),
    ("sim run --seeds x", "--seeds x: give N or A:B"),
    (f"sim run --seeds {'9' * 20}", "at most 18 digits"),
    ("sim run --seeds 99999999999", "at most 10,000,000 seeds"),
    ("sim run --seed -1", "--seed -1: give a whole number"),
    ("sim run --workers 0", "--workers 0: give at least 1"),
    ("sim run --seeds 1 --faults quit", "there is no scenario 'quit'"),
    ("sim run --seeds 1 --scenario absent", "absent: cannot be read: No such file"),
    ("sim run --seeds 1 --scenario dir", "dir: cannot be read: Is a directory"),
    ("sim run --seeds 1 --scenario garbage", "garbage: is not UTF-8 text"),
    ("sim run --seeds 1 --scenario text", "text: is not TOML"),
    ("sim run --seeds 1 --out absent/rows", "--out absent/rows: there is no folder absent; make it first"),
    ("sim run --seeds 1 --out garbage", "garbage, line 1: this is no result of"),
    ("sim run --seeds 1 --html text/pages", "--html: text/pages: Not a directory"),
    ("sim replay", "--seed"),
    ("sim replay --seed x", "--seed x: give a whole number"),
    ("sim replay --seed 1 --html text/page.html", "--html text/page.html: there is no folder text; make it first"),
    ("sim report absent", "absent"),
    ("sim report text", "text, line 1: this is no result of"),
    ("sim mutants votes_are_given_twic", "did you mean votes_are_given_twice?"),
    ("sim mutants --oracle OneVot", "did you mean OneVote?"),
    ("chaos --minutes 0", "--minutes 0: give more than 0"),
    ("chaos --minutes nan", "--minutes nan: give more than 0"),
    ("chaos --minutes inf", "--minutes inf: give more than 0"),
    ("chaos --nodes 99", "--nodes 99: give 3 to 9"),
    ("chaos --only kil", "did you mean kill?"),
    ("chaos --only kill --without wipe", "--only and --without: give one of them"),
    ("chaos --dir absent", "--dir absent: there is no such folder"),
    ("chaos --throughput 0", "--throughput 0: give at least 1"),
    ("bench raft --record-size x", "--record-size x: give whole numbers"),
    ("bench raft --throughput x", "--throughput x: give a number"),
    ("bench raft --dir absent --peer none", "--dir absent: there is no such folder"),
    ("kv get", "KEY is missing; see pykraft kv get --help"),
    ("kv get a --url ftp://a", "--url 'ftp://a': a node is http://host:port"),
    ("kv get a --limit 0", "--limit 0: give a whole number of at least 1"),
    ("kv get a --raw --json", "--raw prints one value"),
    ("kv put a", "VALUE is missing"),
    ("kv put a b --timeout nan", "--timeout nan: give a number from 0.1 to 86400"),
    ("kv watch a --from 0", "--from 0: give a whole number of at least 1"),
    ("kv lock a", "COMMAND is missing"),
    ("kv lock a --ttl 0.5 -- true", "--ttl 0.5: give a number from 1 to 86400"),
    ("kv lock a -- no-such-command", "no-such-command: there is no such command"),
    ("kv serve --http 80", "--http '80': give one host:port"),
    ("kv serve --config absent", "--config absent: No such file"),
    ("kv serve --config empty", "empty: property listeners is required"),
    ("kv serve --nodes 3 --config empty", "--nodes and --config: give"),
    ("kv delete a", "did you mean pykraft kv del?"),
    ("local up --nodes 0", "--nodes 0: give 1 to"),
    ("local up --dir text", "text is not a directory"),
    ("local status --dir absent", "there is no local quorum in absent"),
    ("completion bsh", "did you mean bash?"),
    ("verify empty", "empty: Not a directory"),
    ("describe", "no such command describe; did you mean pykraft quorum describe?"),
    ("local start", "did you mean pykraft local up?"),
    ("local up --nodez 3", "no such option --nodez; did you mean --nodes?"),
    ("local up --nodes three", "--nodes three: give a whole number"),
    ("local up --timeout -5", "--timeout -5: give more than 0 seconds"),
    ("local up --port 99999", "--port 99999: give a whole number from 1 to 65521"),
    ("local down --yes", "--yes needs --delete"),
    ("local down --dir dir", "there is no local quorum in dir"),
    ("append", "--bootstrap-controller is missing; see pykraft append --help"),
    (f"append --bootstrap-controller {NODE} --input jsn", "--input jsn: give one of text, json; did you mean json?"),
    (f"append --bootstrap-controller {NODE} dir", "dir: Is a directory"),
    (f"append --bootstrap-controller http://{NODE}", "'http://localhost:9': a node is host:port"),
    (f"tail --bootstrap-controller {NODE} --from 1,000", "--from 1,000: give earliest, latest or an offset"),
    (f"quorum --bootstrap-controller {NODE} describe --watch 0", "--watch 0: give a number from 0.1 to 3600"),
    (f"quorum --bootstrap-controller {NODE} --timeout 3 describe --timeout 4", "--timeout is given twice"),
    (f"quorum --bootstrap-controller {NODE} describe --status --replication", "give --status or --replication"),
    ("storage format -c empty -t c", "empty: property listeners is required"),
    ("storage info", "--config is missing; see pykraft storage info --help"),
    ("demo --seconds x", "--seconds x: give a number"),
    ("demo --report text", "--report text: Not a directory"),
    ("sim run --workers x", "--workers x: give a whole number"),
    ("sim run --html text", "--html text: Not a directory"),
    ("sim replay 5", "--seed is missing"),
    ("sim replay --seed 1 --html dir", "--html dir: Is a directory; give a file"),
    ("chaos --quorum statc", "did you mean static?"),
    ("bench raft --peer kafk", "did you mean kafka?"),
    ("pipeline package absent/x.zip", "absent/x.zip: there is no folder absent; make it first"),
    ("version extra", "got unexpected extra argument (extra)"),
    ("server", "the configuration file is missing: give --config FILE"),
    ("server empty --override x", "--override: 'x': give a property and its value"),
    ("dump", "FILE"),
    (f"quorum --bootstrap-controller {NODE} upgrade", "--feature"),
    (f"quorum --bootstrap-controller {NODE} transfer", "--to"),
    (f"quorum --bootstrap-controller {NODE} transfer --to 2 --catch-up 61", "--catch-up 61: give 0 to 60"),
    (f"quorum --bootstrap-controller {NODE} remove-controller -i -1 -d {ZERO_ID}", "-1"),
]


@pytest.mark.parametrize(("line", "named"), USAGE, ids=[line for line, _ in USAGE])
def test_a_wrong_value_is_named_with_what_to_do(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str, named: str
) -> None:
    del folder
    monkeypatch.setattr("sys.argv", ["pykraft", *line.split()])
    with pytest.raises(SystemExit) as ended:
        run_with_exit_codes(pykraft)
    out, err = capsys.readouterr()
    assert ended.value.code == 2, err
    assert named in err
    assert out == ""
    assert err.startswith("pykraft: ")
    assert len(err.splitlines()) == 1, err
