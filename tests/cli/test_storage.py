"""``pykraft storage``: Kafka's verbs and lines, for static and dynamic quorums."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pykraft.cli.storage import parse_controllers, storage
from pykraft.errors import ConfigError, ForeignDirectoryError, UsageError
from pykraft.local.voters import PARTITION
from pykraft.log.directory import is_reserved
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.meta import parse_meta
from pykraft.security.users import read_users
from pykraft.snapshot.files import BOOTSTRAP_ID
from pykraft.snapshot.head import SnapshotHead, read_head
from pykraft.types import NodeId, uuid_parse

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
DIRECTORY_ID = "MrUabWf55NPhe7sFKQnEEg"
OTHER_ID = "k_Eg7DHZQauczDshubdK-A"
BOOTSTRAP = "controller.quorum.bootstrap.servers=localhost:9093"
BOTH = ((1, "h1:9093"), (2, "[::1]:9094"))


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A node with two log directories."""
    return write(tmp_path, voters="controller.quorum.voters=1@localhost:9093")


def write(folder: Path, *, voters: str, extra: str = "") -> Path:
    path = folder / "node.properties"
    path.write_text(
        "process.roles=controller\nnode.id=1\nlisteners=CONTROLLER://localhost:9093\n"
        f"controller.listener.names=CONTROLLER\nlog.dirs={folder}/b,{folder}/a\n{voters}\n{extra}\n"
    )
    return path


def run(*words: object) -> Result:
    return CliRunner().invoke(storage, [str(word) for word in words])


def test_format_writes_kafkas_bytes_and_info_shows_them(config: Path, tmp_path: Path) -> None:
    done = run("format", "-c", config, "-t", CLUSTER, "--replica-directory-id", DIRECTORY_ID)
    assert done.exit_code == 0
    assert done.stdout == (
        f"Formatting data directory {tmp_path}/a with kraft.version 0.\n"
        f"Formatting metadata directory {tmp_path}/b with kraft.version 0.\n"
    )
    content = (tmp_path / "b/meta.properties").read_text()
    assert content == f"#\nnode.id=1\ndirectory.id={DIRECTORY_ID}\nversion=1\ncluster.id={CLUSTER}\n"
    shown = run("info", "--config", config)
    head, metadata = shown.stdout.split("\n\n", 1)
    assert shown.exit_code == 0
    assert head == f"Found log directories:\n  {tmp_path}/a\n  {tmp_path}/b"
    assert metadata.startswith(f"Found metadata: {{cluster.id={CLUSTER}, directory.id=")
    assert metadata.endswith(", node.id=1, version=1}\n\n")


def test_formatting_twice_is_refused_or_ignored(config: Path, tmp_path: Path) -> None:
    assert run("format", "-c", config, "-t", CLUSTER).exit_code == 0
    again = run("format", "-c", config, "-t", CLUSTER)
    assert isinstance(again.exception, UsageError)
    assert str(again.exception).startswith(f"log directory {tmp_path}/a is already formatted")
    assert run("format", "-c", config, "-t", CLUSTER, "-g").stdout == (
        "All of the log directories are already formatted.\n"
    )
    other = run("format", "-c", config, "-t", "another", "--ignore-formatted")
    assert isinstance(other.exception, ForeignDirectoryError)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--standalone"], "names static voters, but --standalone is for a dynamic quorum"),
        (["-I", "1@localhost:9093:" + DIRECTORY_ID], "names static voters, but --initial-controllers is for"),
        (["-N"], "names static voters, but --no-initial-controllers is for"),
        (["-s", "-N"], "--standalone and --no-initial-controllers: give one of them"),
        (["--replica-directory-id", "short"], "--replica-directory-id 'short' is not a Kafka UUID"),
        (["--replica-directory-id", "AAAAAAAAAAAAAAAAAAAAAQ"], "the 100 lowest ids are reserved"),
        (["--cluster-id", "a b"], "--cluster-id 'a b': give 1 to 255 letters"),
        (["--cluster-id", "a\nnode.id=7"], "--cluster-id"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_written(
    config: Path, tmp_path: Path, words: list[str], named: str
) -> None:
    result = run("format", "-c", config, "-t", CLUSTER, *words)
    assert isinstance(result.exception, UsageError)
    assert named in str(result.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["node.properties"]


def test_a_node_without_any_voters_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, voters=BOOTSTRAP)
    result = run("format", "-c", path, "-t", CLUSTER)
    assert isinstance(result.exception, UsageError)
    told = f"{path}: property controller.quorum.voters is required for static voters; for a dynamic quorum give --stand"
    assert str(result.exception).startswith(told)


@pytest.mark.parametrize("words", [["--standalone"], ["-I", f"1@localhost:9093:{DIRECTORY_ID}"]])
def test_no_voter_is_formatted_among_kafkas_controllers(tmp_path: Path, words: list[str]) -> None:
    path = write(tmp_path, voters=BOOTSTRAP, extra="pykraft.topic=__cluster_metadata")
    result = run("format", "-c", path, "-t", CLUSTER, *words)
    assert isinstance(result.exception, UsageError)
    told = f"{path}: line 7: property pykraft.topic = '__cluster_metadata': lets this node only observe Kafka's contr"
    assert str(result.exception).startswith(told)
    assert str(result.exception).endswith(" makes it a voter: give --no-initial-controllers")
    assert run("format", "-c", path, "-t", CLUSTER, "-N").exit_code == 0
    assert head_in(tmp_path, partition="__cluster_metadata-0").kraft_version == 1


@pytest.mark.parametrize("words", [["--standalone"], ["-I", f"1@localhost:9093:{DIRECTORY_ID}"]])
def test_the_only_voter_may_lead(tmp_path: Path, words: list[str]) -> None:
    path = write(tmp_path, voters=BOOTSTRAP, extra="pykraft.voter.never.leads=true")
    result = run("format", "-c", path, "-t", CLUSTER, *words)
    assert isinstance(result.exception, UsageError)
    told = f"{path}: line 7: property pykraft.voter.never.leads = 'true': false: this node is the only voter, so no oth"
    assert str(result.exception).startswith(told), result.exception


def head_in(folder: Path, partition: str = PARTITION) -> SnapshotHead:
    return read_head(OsFs(), folder / "b" / partition, BOOTSTRAP_ID)[1]


@pytest.mark.parametrize(
    ("words", "kind", "voters"),
    [
        (["-s"], "dynamic metadata voter", ((1, "localhost:9093"),)),
        (["-I", f"1@h1:9093:{DIRECTORY_ID},2@[::1]:9094:{OTHER_ID}"], "dynamic metadata voter", BOTH),
        (["-N"], "dynamic metadata", None),
    ],
)
def test_a_dynamic_quorum_is_formatted_with_its_first_voters(
    tmp_path: Path, words: list[str], kind: str, voters: tuple[tuple[int, str], ...] | None
) -> None:
    path = write(tmp_path, voters=BOOTSTRAP)
    done = run("format", "-c", path, "-t", CLUSTER, *words)
    assert done.stdout == (
        f"Formatting data directory {tmp_path}/a with kraft.version 1.\n"
        f"Formatting {kind} directory {tmp_path}/b with kraft.version 1.\n"
    )
    head = head_in(tmp_path)
    assert head.kraft_version == 1
    if voters is None:
        assert head.voters is None
    else:
        assert head.voters is not None
        assert tuple((v.key.id, str(v.listeners.get("CONTROLLER"))) for v in head.voters.voters) == voters
        own = parse_meta(tmp_path / "b/meta.properties", (tmp_path / "b/meta.properties").read_bytes()).directory_id
        assert head.voters.voters[0].key.directory_id == own
    assert json.loads(run("format", "-c", path, "-t", CLUSTER, *words, "-g", "--json").stdout)["kraftVersion"] == 1


@pytest.mark.conformance(142)
@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "'' does not have the form id@host:port:directory-id"),
        (f"1@h:9093:{DIRECTORY_ID},", "'' does not have the form"),
        ("1@h:9093", "does not have the form"),
        (f"x@h:9093:{DIRECTORY_ID}", "does not have the form"),
        (f"-1@h:9093:{DIRECTORY_ID}", "does not have the form"),
        (f"1@:9093:{DIRECTORY_ID}", "does not have the form"),
        (f"1@::1:9093:{DIRECTORY_ID}", "does not have the form"),
        ("1@h:9093:short", "does not have the form"),
        (f"1@h:99999:{DIRECTORY_ID}", "port that cannot be dialed (ports are 1 to 65535)"),
        (f"9999999999@h:1:{DIRECTORY_ID}", "an id above"),
        ("1@h:9093:AAAAAAAAAAAAAAAAAAAAAQ", "Kafka reserves"),
        (f"1@h:1:{DIRECTORY_ID},1@h:2:{OTHER_ID}", "id 1 is given twice"),
        (f"1@h:1:{DIRECTORY_ID},2@h:2:{DIRECTORY_ID}", f"directory id {DIRECTORY_ID} is given twice"),
        (f"2@h:1:{DIRECTORY_ID}", "does not name node.id 1"),
    ],
)
def test_every_mistake_in_a_list_of_controllers_is_told(tmp_path: Path, text: str, named: str) -> None:
    path = write(tmp_path, voters=BOOTSTRAP)
    result = run("format", "-c", path, "-t", CLUSTER, "-I", text)
    assert isinstance(result.exception, UsageError)
    assert named in str(result.exception)
    assert [path.name for path in tmp_path.iterdir()] == ["node.properties"]


def test_two_directory_ids_for_one_node_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, voters=BOOTSTRAP)
    words = ("-I", f"1@h:9093:{DIRECTORY_ID}", "--replica-directory-id", OTHER_ID)
    assert "is not the one that" in str(run("format", "-c", path, "-t", CLUSTER, *words).exception)


def test_info_counts_problems_and_ends_with_1(config: Path, tmp_path: Path) -> None:
    result = run("info", "-c", config)
    assert (result.exit_code, result.stdout) == (
        1,
        f"Found problems:\n  {tmp_path}/a does not exist\n  {tmp_path}/b does not exist\n\n",
    )
    (tmp_path / "a").mkdir()
    assert run("info", "-c", config).stdout == (
        f"Found log directory:\n  {tmp_path}/a\n\n"
        f"Found problems:\n  {tmp_path}/a is not formatted.\n  {tmp_path}/b does not exist\n\n"
    )
    empty = tmp_path / "empty.properties"
    empty.write_text("node.id=1\n")
    assert "log.dirs is required" in str(run("info", "-c", empty).exception)


def test_metadata_log_dir_is_one_more_directory(tmp_path: Path) -> None:
    extra = f"metadata.log.dir={tmp_path}/m"
    path = write(tmp_path, voters="controller.quorum.voters=1@localhost:9093", extra=extra)
    lines = run("format", "-c", path, "-t", CLUSTER).stdout.splitlines()
    assert [line.split()[1] for line in lines] == ["data", "data", "metadata"]
    assert (tmp_path / "m/meta.properties").exists()


def test_json_says_the_same(config: Path, tmp_path: Path) -> None:
    document = json.loads(run("format", "-c", config, "-t", CLUSTER, "--json").stdout)
    assert [each["kind"] for each in document.pop("directories")] == ["data", "metadata"]
    assert document == {"clusterId": CLUSTER, "nodeId": 1, "kraftVersion": 0}
    shown = json.loads(run("info", "-c", config, "--json").stdout)
    assert shown["directories"] == [f"{tmp_path}/a", f"{tmp_path}/b"]
    assert shown["metadata"]["cluster.id"] == CLUSTER
    assert shown["problems"] == []
    assert not is_reserved(uuid_parse(json.loads(run("random-uuid", "--json").stdout)["uuid"]))


def test_a_random_uuid_is_never_taken_for_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    made = iter([b"\xf8" * 16, bytes(16), b"\x08" * 16])
    monkeypatch.setattr("os.urandom", lambda size: next(made))
    assert run("random-uuid").stdout == "CAgICAgICAgICAgICAgICA\n"


@pytest.mark.conformance(142)
def test_a_list_means_the_same_in_any_order() -> None:
    one, two = f"1@h1:9093:{DIRECTORY_ID}", "2@[::1]:9094:k_Eg7DHZQauczDshubdK-A"
    voters = parse_controllers(f"{one},{two}", "controller")
    assert voters == parse_controllers(f" {two} , {one} ", "CONTROLLER")
    first = voters.get(NodeId(1))
    assert first is not None
    assert (first.key.directory_id, first.kraft_version.max_version) == (uuid_parse(DIRECTORY_ID), 1)


@pytest.mark.conformance(142)
def test_a_hostile_list_is_refused_in_no_time() -> None:
    with pytest.raises(UsageError, match="not have the form"):
        parse_controllers("1" * 100_000 + "@" * 100_000, "CONTROLLER")


def test_format_adds_users_of_scram_to_the_file_of_the_listeners(tmp_path: Path) -> None:
    users = tmp_path / "users.json"
    secured = (
        "listener.security.protocol.map=CONTROLLER:SASL_PLAINTEXT\nsasl.enabled.mechanisms=SCRAM-SHA-256\n"
        "sasl.mechanism.controller.protocol=SCRAM-SHA-256\n"
        f"pykraft.scram.users={users}"
    )
    config = write(tmp_path, voters="controller.quorum.voters=1@localhost:9093", extra=secured)
    words = ("format", "-c", config, "-t", CLUSTER, "-g", "--add-scram")
    assert run(*words, "SCRAM-SHA-256=[name=alice,password=s3cret]").exit_code == 0
    done = run(*words, "SCRAM-SHA-512=[name=bob,password=s3cret]", "-S", "SCRAM-SHA-256=[name=bob,password=s3cret]")
    assert (done.exit_code, "s3cret" in done.output + users.read_text()) == (0, False)
    assert {key: sorted(names) for key, names in read_users(users).items()} == {
        "SCRAM-SHA-256": ["alice", "bob"],
        "SCRAM-SHA-512": ["bob"],
    }
    refused = run(*words, "SCRAM-SHA-256=[name=carol]")
    assert isinstance(refused.exception, UsageError)
    assert sorted(read_users(users)["SCRAM-SHA-256"]) == ["alice", "bob"]


def test_format_without_a_file_for_users_refuses_them_and_writes_nothing(config: Path, tmp_path: Path) -> None:
    refused = run("format", "-c", config, "-t", CLUSTER, "-S", "SCRAM-SHA-256=[name=alice,password=s3cret]")
    assert isinstance(refused.exception, ConfigError)
    assert refused.exception.key == "pykraft.scram.users"
    assert not (tmp_path / "b").exists()
