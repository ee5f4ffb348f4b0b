"""``pykraft metadata``: tables, differences, history and records of recorded clusters; wrong input is one line."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pykraft.cli.main import pykraft
from pykraft.cli.metadata import TABLES
from pykraft.errors import UsageError
from pykraft.spark.metadata.tables import COLUMNS
from tests.security.credentials import properties, security
from tests.server.nodes import LISTENER
from tests.spark.metadata.made import GOLDEN, topic, value
from tests.spark.quorum_of_one import OneNode

NODE = str(GOLDEN / "static" / "disk" / "n1" / "data")


def output(*arguments: str) -> str:
    """What it prints."""
    done = CliRunner().invoke(pykraft, ["metadata", *arguments], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    assert done.exit_code == 0
    return done.output


def document(*arguments: str) -> dict[str, Any]:
    """The object that it prints with --json."""
    found: dict[str, Any] = json.loads(output(*arguments, "--json"))
    return found


def test_the_cluster_at_a_moment() -> None:
    found = document("show", NODE, "--as-of", "2026-11-21T03:00:35Z")
    assert list(found) == ["end_offset", "last_timestamp_ms", "tables"]
    assert list(found["tables"]) == list(TABLES) == list(COLUMNS)
    assert (found["end_offset"], found["last_timestamp_ms"]) == (27, 1795230034884)
    assert [row["name"] for row in found["tables"]["topics"]] == ["t1"]
    assert document("show", NODE, "--as-of", "27", "--table", "topics")["tables"].keys() == {"topics"}
    text = output("show", NODE, "--as-of", "27")
    assert "below offset 27, whose last record is of 2026-11-21T03:00:34.884Z" in text
    assert "t1" in text
    assert "acls" not in text


def test_what_changed_between_two_moments() -> None:
    found = document("diff", NODE, "--since", "27", "--as-of", "158", "--table", "brokers", "--table", "topics")
    assert list(found) == ["since_offset", "end_offset", "differences"]
    assert [(each["table"], each["change"]) for each in found["differences"]] == [
        ("brokers", "changed"),
        ("topics", "added"),
    ]
    assert found["differences"][0]["after"] == {"fenced": True, "in_controlled_shutdown": True}
    assert "2 differences between offsets 27 and 158" in output(
        "diff", NODE, "--since", "27", "--table", "brokers", "--table", "topics"
    )
    assert output("diff", NODE, "--since", "158", "--as-of", "158") == "0 differences between offsets 158 and 158\n"


def test_the_leaders_of_partitions_over_time() -> None:
    found = document("history", NODE)
    rows = [row for row in found["history"] if (row["topic"], row["partition_id"]) == ("t1", 0)]
    assert [(row["offset"], row["leader"], row["leader_epoch"], row["isr"]) for row in rows] == [
        (24, 4, 0, [4]),
        (155, -1, 1, []),
    ]
    assert "2026-11-21T03:00:57.187Z" in output("history", NODE)


def test_which_records_name_a_topic() -> None:
    lines = output("find", "T1", NODE).splitlines()
    assert [line.split("\t")[0] for line in lines] == ["23"]
    assert lines[0].split("\t")[2].startswith("TOPIC_RECORD name=t1 ")
    words = ("find", "partition_change", NODE, "--as-of", "108", "--json")
    found = [json.loads(line) for line in output(*words).splitlines()]
    assert [(each["offset"], each["data"]["partitionId"]) for each in found] == [(105, 0), (106, 1), (107, 2)]


def test_live_quorum_that_speaks_tls_only(tmp_path: Path) -> None:
    values = properties(tmp_path / "certificates")
    node = OneNode(tmp_path / "quorum", security=((LISTENER, security(values)),))
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{key}={values[key]}\n" for key in values) + "security.protocol=SSL\n")
    asked = ("find", "orders", "--bootstrap-controller", str(node.endpoint))
    try:
        node.append(value(topic()))
        assert output(*asked, "--command-config", str(file)).startswith("1\t")
    finally:
        node.stop()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("show",), "give either directories or --bootstrap-controller"),
        (("show", NODE, "--bootstrap-controller", "h:1"), "give either directories or --bootstrap-controller"),
        (("show", NODE, "--command-config", "f"), "--command-config needs --bootstrap-controller"),
        (("show", "--bootstrap-controller", "h"), "--bootstrap-controller 'h': a node is host:port"),
        (("show", NODE, "--as-of", "noon"), "--as-of noon: give an offset, or a time such as"),
        (("diff", NODE, "--since", "noon"), "--since noon: give an offset"),
        (("show", NODE, "--as-of", "159"), "the log ends at offset 158, before offset 159"),
        (
            ("diff", NODE, "--since", "1", "--table", "topic"),
            "--table topic: it must be one of brokers, .*; did you mean topics?",
        ),
        (("history", str(GOLDEN)), "no segment files"),
    ],
)
def test_wrong_input_is_one_line(arguments: tuple[str, ...], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        output(*arguments)
