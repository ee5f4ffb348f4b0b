"""A node that must not start says in one line what is wrong, where, and how to repair it, and exits with its status."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.nodes.cluster import Cluster, JournalKeeper, PykraftNode
from pykraft.local import voters
from pykraft.local.child import Children

pytestmark = pytest.mark.processes

EXIT_CONFIGURATION = 2
EXIT_STORAGE = 3
EXIT_DIRECTORY = 4


@pytest.fixture(scope="module")
def used_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a node 1 that led twice, wrote and was stopped."""
    folder = tmp_path_factory.mktemp("used")
    journal = JournalKeeper(folder / "journal.jsonl")
    with Children() as children:
        node = PykraftNode(children, journal, folder / "n1", node_id=1, ports={1: voters.free_ports(1)[0]})
        for _ in range(2):
            node.start()
            journal.wait_for_acknowledged(100, since=journal.mark())
            assert node.process.stop() == 0
    return node.partition.parent


@pytest.fixture
def refusal(children: Children, tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Start a node that is to refuse; returns its exit status and what it said last."""

    def start(properties: dict[str, str], *options: str) -> tuple[int, str]:
        config = voters.write_properties(tmp_path / "server.properties", properties)
        log = tmp_path / "node.log"
        environment = {"PYTHONPATH": str(voters.SOURCES)}
        child = children.start("a refusing node", voters.server_command(config, *options), log, environment=environment)
        status = child.wait()
        assert "Traceback" not in child.log()
        return status, child.log().splitlines()[-1]

    return start


def good_properties(data: Path) -> dict[str, str]:
    return voters.voter_properties(data, node_id=1, ports=dict(zip((1, 2, 3), voters.free_ports(3), strict=True)))


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("node.id", "one", "'one'"),
        ("listeners", "PLAINTEXT://127.0.0.1:999999", "999999"),
        ("ssl.keystore.location", "/etc/keys", "ssl.keystore.location"),
    ],
)
def test_a_bad_property_is_named_with_its_value(
    refusal: Callable[..., tuple[int, str]], tmp_path: Path, key: str, value: str, says: str
) -> None:
    status, said = refusal({**good_properties(tmp_path / "data"), key: value})
    assert status == EXIT_CONFIGURATION
    assert key in said
    assert says in said
    assert not (tmp_path / "data").exists()


def test_an_address_that_is_taken_is_named(
    children: Children, tmp_path: Path, refusal: Callable[..., tuple[int, str]]
) -> None:
    cluster = Cluster(children, tmp_path, size=1)
    cluster.start()
    port = cluster.nodes[1].port
    status, said = refusal({**good_properties(tmp_path / "data"), "listeners": f"PLAINTEXT://{voters.HOST}:{port}"})
    assert status != 0
    assert str(port) in said


def test_a_directory_in_use_is_named(
    children: Children, tmp_path: Path, refusal: Callable[..., tuple[int, str]]
) -> None:
    cluster = Cluster(children, tmp_path, size=1)
    cluster.start()
    data = cluster.nodes[1].partition.parent
    status, said = refusal(good_properties(data))
    assert status == EXIT_STORAGE
    assert str(data) in said


def damage_meta(data: Path) -> Path:
    path = data / "meta.properties"
    path.write_bytes(b"\0\1garbage\n")
    return path


def lose_a_key_of_meta(data: Path) -> Path:
    path = data / "meta.properties"
    path.write_text("".join(line for line in path.read_text().splitlines(keepends=True) if "cluster.id" not in line))
    return path


def garble_quorum_state(data: Path) -> Path:
    path = data / voters.PARTITION / "quorum-state"
    path.write_text("{]")
    return path


def change_a_bit_of_quorum_state(data: Path) -> Path:
    path = data / voters.PARTITION / "quorum-state"
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"leaderEpoch":2', b'"leaderEpoch":3'))
    assert path.read_bytes() != content
    return path


def lose_quorum_state(data: Path) -> Path:
    path = data / voters.PARTITION / "quorum-state"
    path.unlink()
    return path


def lose_the_beginning(data: Path) -> Path:
    """As if all snapshots, and the segments that they replaced, were gone: the log starts after offset 0."""
    [segment] = (data / voters.PARTITION).glob("*.log")
    segment.rename(segment.with_name(f"{1:020d}.log"))
    return data / voters.PARTITION


@pytest.mark.parametrize(
    "damage",
    [
        damage_meta,
        lose_a_key_of_meta,
        garble_quorum_state,
        change_a_bit_of_quorum_state,
        lose_quorum_state,
        lose_the_beginning,
    ],
)
def test_a_damaged_file_is_named_with_its_repair(
    used_data: Path, tmp_path: Path, refusal: Callable[..., tuple[int, str]], damage: Callable[[Path], Path]
) -> None:
    data = tmp_path / "data"
    shutil.copytree(used_data, data)
    path = damage(data)
    status, said = refusal(good_properties(data))
    assert status == EXIT_DIRECTORY
    assert str(path) in said
    assert "restore" in said


def test_the_directory_of_another_node_is_refused(
    used_data: Path, tmp_path: Path, refusal: Callable[..., tuple[int, str]]
) -> None:
    data = tmp_path / "data"
    shutil.copytree(used_data, data)
    status, said = refusal({**good_properties(data), "node.id": "2"})
    assert status == EXIT_DIRECTORY
    assert str(data / "meta.properties") in said
    assert "node" in said


def test_the_directory_of_another_cluster_is_refused(
    used_data: Path, tmp_path: Path, refusal: Callable[..., tuple[int, str]]
) -> None:
    data = tmp_path / "data"
    shutil.copytree(used_data, data)
    status, said = refusal(good_properties(data), "--cluster-id", "another")
    assert status == EXIT_DIRECTORY
    assert str(data / "meta.properties") in said
    assert "another" in said


GOLDEN = Path(__file__).parents[1] / "golden"


def a_zookeeper_brokers(data: Path) -> None:
    data.mkdir()
    (data / "meta.properties").write_text("#\nversion=0\nbroker.id=1\ncluster.id=abc\n")


def a_java_controllers(data: Path) -> None:
    shutil.copytree(GOLDEN / "static" / "disk" / "n1" / "data", data)


def a_java_brokers(data: Path) -> None:
    shutil.copytree(GOLDEN / "static" / "disk" / "n4" / "data", data)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (a_zookeeper_brokers, "a ZooKeeper broker's directory; give this node a directory of its own in log.dirs"),
        (a_java_controllers, "found cluster.id="),
        (a_java_brokers, "found node.id=4; this directory is another replica's: correct log.dirs"),
    ],
)
def test_a_directory_from_elsewhere_is_explained(
    tmp_path: Path, refusal: Callable[..., tuple[int, str]], make: Callable[[Path], None], says: str
) -> None:
    data = tmp_path / "data"
    make(data)
    before = sorted(path.name for path in data.iterdir())
    status, said = refusal(good_properties(data), "--cluster-id", "another")
    assert status == EXIT_DIRECTORY
    assert str(data / "meta.properties") in said
    assert says in said
    assert sorted(path.name for path in data.iterdir() if path.name != ".lock") == before


def test_a_file_in_the_place_of_the_directory_is_explained(
    tmp_path: Path, refusal: Callable[..., tuple[int, str]]
) -> None:
    data = tmp_path / "data"
    data.write_text("not a directory")
    status, said = refusal(good_properties(data))
    assert (status, said) == (
        EXIT_STORAGE,
        f"pykraft: {data}: is not a directory; name a directory, or one that can be created",
    )


def test_a_node_whose_printouts_are_lost_ends_with_a_line(tmp_path: Path) -> None:
    """``/dev/full`` is a file on a full disk: each write is ENOSPC. The first printout comes after five seconds."""
    properties = voters.voter_properties(tmp_path / "n1", node_id=1, ports={1: voters.free_ports(1)[0]})
    config = voters.write_properties(tmp_path / "server.properties", properties)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            voters.server_command(config, "--throughput", "5000"),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
            env={"PYTHONPATH": str(voters.SOURCES)},
        )
    assert done.stderr.splitlines()[-1] == "pykraft: standard output: No space left on device"
    assert done.returncode == 2
    assert "Exception ignored" not in done.stderr
