"""Every property by its row: its default, the edges of its range, wrong values; and the page that lists them."""

import re
from collections.abc import Iterator

import pytest

from pykraft.config.known_properties import ALIASES, IDLE, KNOWN, PASSED_OVER, Known, suggestion
from pykraft.config.properties import ParsedConfig, node_config
from pykraft.errors import ConfigError
from tests.tidy.repository import ROOT

MINIMAL = {
    "node.id": "1",
    "listeners": "PLAINTEXT://localhost:9092",
    "controller.listener.names": "PLAINTEXT",
    "controller.quorum.voters": "1@localhost:9092,2@localhost:9093",
    "log.dirs": "logs",
}
PAGE = ROOT / "docs" / "server.md"
RANGE = re.compile(r"a whole number from (-?\d+) to (-?\d+)")
NUMBERS = [known for known in KNOWN if RANGE.fullmatch(known.allowed)]
FLAGS = [known for known in KNOWN if known.allowed == "true or false"]
TEXTS = {
    "process.roles": ("controller", "zookeeper"),
    "listeners": ("PLAINTEXT://localhost:9092", "localhost:9092"),
    "advertised.listeners": ("PLAINTEXT://localhost:9092", "PLAINTEXT://example.org"),
    "controller.listener.names": ("PLAINTEXT", "CONTROLLER"),
    "listener.security.protocol.map": ("PLAINTEXT:PLAINTEXT", "PLAINTEXT:TLS"),
    "authorizer.class.name": ("org.apache.kafka.metadata.authorizer.StandardAuthorizer", "kafka.security.Authorizer"),
    "super.users": ("User:CN=a,O=b;User:c", "c"),
    "pykraft.acl.file": ("/etc/pykraft/acls", "a\0b"),
    "pykraft.voter.principals": ("1@User:CN=a,O=b;1@User:c", "1@c"),
    "controller.quorum.voters": ("1@localhost:9092", "localhost:9092"),
    "pykraft.topic": ("__raft_performance_test", "__consumer_offsets"),
    "controller.quorum.bootstrap.servers": ("localhost:9092", "localhost"),
    "log.dirs": ("logs", "\0"),
    "log.dir": ("logs", "\0"),
    "metadata.log.dir": ("logs", "\0"),
    "pykraft.leader.send": ("written", "all"),
    "pykraft.operator.listeners": ("none", "nobody"),
    "pykraft.client.listeners": ("none", "nobody"),
    "pykraft.client.topic": ("orders", "a/b"),
    "pykraft.client.records": ("kraft", "all"),
    "pykraft.prometheus.listener": ("localhost:0", "localhost"),
}
"""A value that may be, and one that may not."""
WITH_AUTHORIZER = {"authorizer.class.name": TEXTS["authorizer.class.name"][0]}
BESIDE = {
    "super.users": WITH_AUTHORIZER,
    "allow.everyone.if.no.acl.found": WITH_AUTHORIZER,
    "pykraft.acl.file": WITH_AUTHORIZER,
    "pykraft.voter.principals": {"listener.security.protocol.map": "PLAINTEXT:SSL"},
}
"""What a property needs beside it."""


def read(key: str, value: str) -> ParsedConfig:
    properties = {**MINIMAL, **BESIDE.get(key, {}), key: value}
    if key == "log.dir":
        del properties["log.dirs"]
    return node_config(properties)


def refuse(key: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(key, value)
    assert caught.value.allowed
    assert "\n" not in str(caught.value)
    assert caught.value.key == key


def edges(known: Known) -> tuple[int, int]:
    match = RANGE.fullmatch(known.allowed)
    assert match is not None
    return int(match[1]), int(match[2])


@pytest.mark.parametrize("known", NUMBERS, ids=lambda known: known.key)
def test_a_number_is_taken_up_to_its_edges_and_no_further(known: Known) -> None:
    least, most = edges(known)
    for allowed in (least, most):
        read(known.key, str(allowed))
    for wrong in (str(least - 1), str(most + 1), "soon", "1.5", "0x10"):
        refuse(known.key, wrong)


@pytest.mark.parametrize("known", NUMBERS, ids=lambda known: known.key)
def test_the_default_is_what_counts_when_it_is_not_given(known: Known) -> None:
    if known.key != "node.id" and known.default != "none":
        assert read(known.key, known.default).config == node_config(MINIMAL).config


@pytest.mark.parametrize("known", FLAGS, ids=lambda known: known.key)
def test_a_flag_is_true_or_false(known: Known) -> None:
    for allowed in ("true", "FALSE", " true "):
        read(known.key, allowed)
    for wrong in ("yes", "1", "truefalse"):
        refuse(known.key, wrong)


@pytest.mark.parametrize("key", TEXTS)
def test_a_text_is_checked(key: str) -> None:
    right, wrong = TEXTS[key]
    read(key, right)
    refuse(key, wrong)


def test_every_row_is_a_number_a_flag_or_a_text_of_the_table() -> None:
    keys = [known.key for known in KNOWN]
    assert len(set(keys)) == len(keys)
    assert {*keys} == {known.key for known in (*NUMBERS, *FLAGS)} | TEXTS.keys()
    assert set(ALIASES.values()) <= set(keys)
    assert not (ALIASES.keys() | PASSED_OVER) & set(keys)


@pytest.mark.parametrize("known", [known for known in KNOWN if known.key not in MINIMAL], ids=lambda known: known.key)
def test_what_is_known_may_be_given_without_a_warning(known: Known) -> None:
    value = TEXTS[known.key][0] if known.key in TEXTS else known.default.replace("none", "4096")
    assert read(known.key, value).warnings == ()


def test_every_property_that_is_read_has_a_row() -> None:
    source = (ROOT / "src" / "pykraft" / "config/properties.py").read_text()
    read = set(re.findall(r'"((?:[a-z]+\.)+[a-z]+)"', source))
    only_refused = {"security.inter.broker.protocol"}
    assert read - only_refused <= {known.key for known in KNOWN}
    assert "log.dirs" in read


@pytest.mark.conformance("H85")
def test_what_has_no_effect_is_not_held() -> None:
    for idle in IDLE:
        assert read(idle.number.key, str(idle.default)).config == node_config(MINIMAL).config


@pytest.mark.conformance("H51", "H80", "H81", "H82", "H83", "H84", "H86")
@pytest.mark.parametrize(
    "old",
    [
        "broker.id",
        "quorum.voters",
        "quorum.fetch.timeout.ms",
        "quorum.election.timeout.ms",
        "quorum.election.backoff.max.ms",
        "quorum.append.linger.ms",
        "quorum.request.timeout.ms",
        "quorum.retry.backoff.ms",
    ],
)
def test_what_kip_595_called_it_means_the_same(old: str) -> None:
    new = ALIASES[old]
    others = {key: value for key, value in MINIMAL.items() if key != new}
    by_old, by_new = (node_config({**others, name: MINIMAL.get(new, "7")}) for name in (old, new))
    assert by_old.config == by_new.config
    assert by_old.warnings == (f"property {old} is now called {new}",)
    assert new in MINIMAL or by_new.config != node_config(MINIMAL).config


@pytest.mark.conformance("H52")
@pytest.mark.parametrize(
    ("key", "warnings"), [("verbose", ("property verbose is unknown and has no effect",)), ("quorum.verbose", ())]
)
def test_nothing_can_be_made_verbose(key: str, warnings: tuple[str, ...]) -> None:
    assert not [known.key for known in KNOWN if "verbose" in known.key]
    parsed = read(key, "true")
    assert (parsed.config, parsed.warnings) == (node_config(MINIMAL).config, warnings)


@pytest.mark.conformance("H85")
@pytest.mark.parametrize("key", ["quorum.retry.backoff.max.ms", "controller.quorum.retry.backoff.max.ms"])
def test_a_longest_pause_is_taken_and_changes_nothing(key: str) -> None:
    assert read(key, "500") == node_config(MINIMAL)
    with pytest.raises(ConfigError, match=key.replace(".", r"\.")):
        read(key, "-1")


def test_a_name_that_is_near_is_suggested() -> None:
    assert suggestion("controller.quorum.voter") == "controller.quorum.voters"
    assert suggestion("PROCESS.ROLE") == "process.roles"
    assert suggestion("num.partitions") is None
    assert suggestion("") is None


def rows() -> Iterator[str]:
    yield "| property | default | allowed | meaning | has an effect |"
    yield "|---|---|---|---|---|"
    for known in KNOWN:
        yield f"| `{known.key}` | {known.default} | {known.allowed} | {known.meaning} | {known.effect.value} |"
    yield ""
    yield "| older name | is now called |"
    yield "|---|---|"
    yield from (f"| `{old}` | `{new}` |" for old, new in ALIASES.items())


def test_the_page_lists_them_all(request: pytest.FixtureRequest) -> None:
    page = PAGE.read_text()
    head, _, rest = page.partition("<!-- properties -->\n")
    table = "\n".join(rows())
    expected = f"{head}<!-- properties -->\n\n{table}\n\n<!-- end -->{rest.partition('<!-- end -->')[2]}"
    if request.config.getoption("--rewrite"):
        PAGE.write_text(expected)
    assert PAGE.read_text() == expected
