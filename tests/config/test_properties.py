"""What the properties of a file mean for a node; an error for a wrong value names the allowed ones.

The text of properties files is read as Java reads it.

What `test_java_format` expects was compared with what ``java.util.Properties`` of JDK 17 makes of the same texts.
"""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.config import KAFKAS_RAFT, LogSettings, NodeConfig, RaftConfig
from pykraft.config.known_properties import ALIASES
from pykraft.config.properties import (
    ParsedConfig,
    Properties,
    is_bare,
    node_config,
    origin_of,
    parse_properties,
    with_origins,
)
from pykraft.errors import AddressInUseError, ConfigError
from pykraft.types import LISTENERS_MAX, Endpoint, NodeId

QUORUM = "1@localhost:9092,2@localhost:9093,3@localhost:9094"
MINIMAL = {
    "node.id": "1",
    "listeners": "PLAINTEXT://localhost:9092",
    "controller.listener.names": "PLAINTEXT",
    "controller.quorum.voters": QUORUM,
    "log.dirs": "logs-1",
}
SAMPLE_OF_2020 = """
broker.id=1
listeners=PLAINTEXT://localhost:9092
quorum.voters=1@localhost:9092,2@localhost:9093,3@localhost:9094
log.dirs=raft-logs-1
zookeeper.connect=localhost:2181
"""
PRESENT_SAMPLE = """
node.id=1
listeners=PLAINTEXT://localhost:9092
controller.listener.names=PLAINTEXT
controller.quorum.voters=1@localhost:9092,2@localhost:9093,3@localhost:9094
log.dirs=raft-logs-1
"""
STOCK_MAP = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
GOLDEN = Path(__file__).parent.parent / "golden"


def read(**changes: str | None) -> ParsedConfig:
    """The minimal configuration with some keys changed; dots are written as two underscores, None removes a key."""
    properties: dict[str, str | None] = {**MINIMAL}
    properties.update({key.replace("__", "."): value for key, value in changes.items()})
    return node_config({key: value for key, value in properties.items() if value is not None})


def refused(**changes: str | None) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read(**changes)
    assert caught.value.key in str(caught.value)
    assert caught.value.allowed
    return caught.value


def test_a_minimal_configuration_has_kafkas_defaults() -> None:
    parsed = read()
    config = parsed.config
    assert parsed.warnings == ()
    assert (config.node_id, config.log_dir) == (NodeId(1), Path("logs-1"))
    assert config.listeners.get("PLAINTEXT") == Endpoint("localhost", 9_092)
    assert config.advertised_listeners == config.listeners
    assert config.voters.ids == (1, 2, 3)
    assert config.voters.listeners(NodeId(3)).get("PLAINTEXT") == Endpoint("localhost", 9_094)
    assert (config.raft, config.log) == (KAFKAS_RAFT, LogSettings())
    assert (config.directory_id, config.bootstrap_servers) == (None, ())


@pytest.mark.conformance("H51", "H65", "H86")
def test_the_names_of_2020_mean_the_same() -> None:
    old, new = (node_config(parse_properties(text)) for text in (SAMPLE_OF_2020, PRESENT_SAMPLE))
    assert old.config == new.config
    assert set(old.warnings) == {
        "line 2: property broker.id is now called node.id",
        "line 4: property quorum.voters is now called controller.quorum.voters",
    }


def test_a_file_that_was_appended_to_twice_is_the_same_node() -> None:
    once, twice = (node_config(parse_properties(PRESENT_SAMPLE * count)) for count in (1, 2))
    assert once == twice


def test_the_present_name_counts_before_the_old_one() -> None:
    parsed = read(broker__id="7")
    assert parsed.config.node_id == 1
    assert parsed.warnings == ("property broker.id is now called node.id; that is also given, and 1 is used",)
    assert read(broker__id=" 1").warnings == ("property broker.id is now called node.id",)
    for old, new in ALIASES.items():
        assert old != new
        assert new not in ALIASES


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*/disk/n*/server.properties")), ids=lambda path: path.parent.name)
def test_files_of_real_nodes_are_read(path: Path) -> None:
    properties = parse_properties(path.read_text())
    if properties.get("process.roles") == "broker":
        with pytest.raises(ConfigError, match="a node here is a controller"):
            node_config(properties)
        return
    config = node_config(properties).config
    assert config.node_id == int(properties["node.id"])


def test_every_number_of_the_quorum_and_the_log_is_read() -> None:
    config = read(
        controller__quorum__election__timeout__ms="1",
        controller__quorum__fetch__timeout__ms="2",
        controller__quorum__election__backoff__max__ms="3",
        controller__quorum__append__linger__ms="0",
        controller__quorum__request__timeout__ms=" 5 ",
        controller__quorum__retry__backoff__ms="+6",
        controller__quorum__fetch__max__bytes="7",
        controller__quorum__fetch__snapshot__max__bytes="8",
        internal__metadata__max__batch__size__in__bytes="9000",
        pykraft__leader__send="flushed",
        metadata__log__segment__bytes="8388608",
        metadata__log__segment__ms="10",
        index__interval__bytes="11",
        segment__index__bytes="24",
        socket__request__max__bytes="2048",
        connections__max__idle__ms="13",
    ).config
    assert config.raft == RaftConfig(
        election_timeout_ms=1,
        fetch_timeout_ms=2,
        election_backoff_max_ms=3,
        append_linger_ms=0,
        request_timeout_ms=5,
        retry_backoff_ms=6,
        fetch_size_bytes_max=7,
        fetch_snapshot_size_bytes_max=8,
        batch_size_bytes_max=9_000,
        leader_send_flushed_only=True,
    )
    assert config.log == LogSettings(
        segment_size_bytes=8_388_608, segment_ms=10, index_interval_bytes=11, index_size_bytes_max=24
    )
    assert (config.request_size_bytes_max, config.connections_idle_ms_max) == (2_048, 13)


def test_only_the_internal_segment_size_may_be_small() -> None:
    assert refused(metadata__log__segment__bytes="8388607").key == "metadata.log.segment.bytes"
    small = read(metadata__log__segment__bytes="8388608", internal__metadata__log__segment__bytes="4096").config
    assert small.log.segment_size_bytes == 4_096


@pytest.mark.parametrize("value", ["-1", "x", "1.5", "0x10", "2147483648", "9" * 5_000, "1_000", "१", "--1", "1 2"])
@pytest.mark.parametrize("key", ["node.id", "controller.quorum.fetch.timeout.ms"])
def test_a_number_that_is_none_is_refused(key: str, value: str) -> None:
    error = refused(**{key.replace(".", "__"): value})
    assert (error.key, error.value) == (key, value)
    assert error.allowed == "a whole number from 0 to 2147483647"


@pytest.mark.parametrize("key", sorted(MINIMAL.keys() - {"controller.listener.names"}))
def test_what_is_required_is_asked_for(key: str) -> None:
    assert refused(**{key.replace(".", "__"): None}).key == key
    assert refused(**{key.replace(".", "__"): "  "}).key == key


@pytest.mark.conformance("H79")
@pytest.mark.parametrize(
    "voter",
    [
        "localhost:9092",
        "1@2@localhost:9092",
        "x@localhost:9092",
        "-1@localhost:9092",
        "2147483648@localhost:9092",
        "9" * 5_000 + "@localhost:9092",
        "1@localhost",
        "1@localhost:",
        "1@localhost:0",
        "1@localhost:65536",
        "1@:9092",
        "1@0.0.0.0:9092",
        "1@[::]:9092",
        "1@::1:9092",
        "1@a b:9092",
        "1@localhost:9092/x",
        "1@PLAINTEXT://localhost:9092",
    ],
)
def test_a_wrong_voter_is_refused(voter: str) -> None:
    error = refused(controller__quorum__voters=f"2@localhost:9093,{voter}")
    assert (error.key, error.value) == ("controller.quorum.voters", voter)


@pytest.mark.conformance("H79")
def test_voters_may_have_ipv6_hosts_and_the_last_of_two_with_one_id_counts() -> None:
    voters = read(controller__quorum__voters="1@a:1, 2@[::1]:2,1@[fe80::1%eth0]:3,").config.voters
    assert voters.ids == (1, 2)
    assert voters.listeners(NodeId(1)).get("PLAINTEXT") == Endpoint("fe80::1%eth0", 3)
    assert voters.listeners(NodeId(2)).get("PLAINTEXT") == Endpoint("::1", 2)


def test_voters_are_reached_on_the_first_controller_listener() -> None:
    config = read(
        listeners="CLIENT://localhost:9092,CONTROLLER://localhost:9093", controller__listener__names="controller,client"
    ).config
    assert config.default_listener == "CONTROLLER"
    assert config.voters.listeners(NodeId(1)).get("CONTROLLER") is not None


def test_who_is_no_voter_observes() -> None:
    assert read(node__id="4").warnings == ("node.id 4 is not one of controller.quorum.voters: this node only observes",)


@pytest.mark.conformance("H51")
def test_bootstrap_servers_do_instead_of_voters() -> None:
    config = read(controller__quorum__voters=None, controller__quorum__bootstrap__servers="a:1,[::1]:2").config
    assert config.bootstrap_servers == (Endpoint("a", 1), Endpoint("::1", 2))
    for wrong in ("a", "a:0", "0.0.0.0:1", ":1", "127.0.0.1\0:1"):
        assert refused(controller__quorum__bootstrap__servers=wrong).value == wrong


@pytest.mark.parametrize(
    "listeners",
    [
        "localhost:9092",
        "://localhost:9092",
        "A B://localhost:9092",
        "PLAINTEXT://localhost",
        "PLAINTEXT://localhost:0",
        "PLAINTEXT://localhost:1,plaintext://localhost:2",
        "PLAINTEXT://localhost:1,OTHER://localhost:1",
    ],
)
def test_wrong_listeners_are_refused(listeners: str) -> None:
    assert refused(listeners=listeners).key == "listeners"


def test_operators_have_listeners_of_their_own_if_they_are_named() -> None:
    listeners = "CONTROLLER://:9093,ADMIN://localhost:9094"
    for text, found in ((None, None), ("", None), ("none", ()), ("admin", ("ADMIN",)), ("ADMIN, controller", ...)):
        config = read(
            listeners=listeners, controller__listener__names="CONTROLLER", pykraft__operator__listeners=text
        ).config
        assert config.operator_listeners == (("ADMIN", "CONTROLLER") if found is ... else found)
        config = read(
            listeners=listeners, controller__listener__names="CONTROLLER", pykraft__client__listeners=text
        ).config
        assert config.client_listeners == (("ADMIN", "CONTROLLER") if found is ... else found or ())
    assert refused(pykraft__operator__listeners="OTHER").value == "OTHER"
    assert refused(pykraft__client__listeners="OTHER").value == "OTHER"


def test_a_node_has_a_bounded_number_of_listeners() -> None:
    listeners = ",".join(f"L{number}://:{9_000 + number}" for number in range(LISTENERS_MAX + 1))
    assert "at most 16" in str(refused(listeners=listeners))


def test_controller_listeners_are_listeners() -> None:
    assert refused(controller__listener__names=" , ").key == "controller.listener.names"
    assert refused(controller__listener__names="CONTROLLER").value == "CONTROLLER"
    assert refused(controller__listener__names="PLAINTEXT,plaintext").key == "controller.listener.names"


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])  # noqa: S104 - nothing is bound
def test_a_wildcard_is_bound_but_not_told(host: str) -> None:
    dynamic = {"controller__quorum__voters": None, "controller__quorum__bootstrap__servers": "localhost:9093"}
    parsed = read(listeners=f"PLAINTEXT://{host}:9092", **dynamic)
    assert parsed.config.listeners.get("PLAINTEXT") == Endpoint(host.strip("[]"), 9_092)
    assert parsed.config.advertised_listeners.get("PLAINTEXT") == Endpoint("localhost", 9_092)
    assert parsed.warnings == (
        "other nodes will dial localhost:9092 for PLAINTEXT; if that is wrong, set advertised.listeners",
    )
    assert refused(advertised__listeners=f"PLAINTEXT://{host}:9092").key == "advertised.listeners"


def test_a_static_voter_tells_the_address_that_the_others_dial() -> None:
    listeners = "PLAINTEXT://0.0.0.0:19092,CLIENT://127.0.0.1:1"
    parsed = read(listeners=listeners)
    assert not any("advertised.listeners" in each for each in parsed.warnings)
    assert parsed.config.advertised_listeners.get("PLAINTEXT") == Endpoint("localhost", 9_092)
    # The entry is an address for voters, and is not this node's if it is not a voter.
    assert parsed.config.advertised_listeners.get("CLIENT") == Endpoint("127.0.0.1", 1)
    observer = read(listeners="PLAINTEXT://127.0.0.1:7", node__id="4").config
    assert observer.advertised_listeners.get("PLAINTEXT") == Endpoint("127.0.0.1", 7)
    told = read(listeners=listeners, advertised__listeners="PLAINTEXT://example.org:5").config.advertised_listeners
    assert told.get("PLAINTEXT") == Endpoint("example.org", 5)


SAME = [("localhost:9092", "127.0.0.1:9092"), ("h:9092", ":9092"), ("h:9092", "10.0.0.1:9092"), ("H:9092", "h:9092")]
OTHER = [("localhost:9099", "localhost:9092"), ("h:9092", "g:9092"), ("10.0.0.2:9092", "10.0.0.1:9092")]


@pytest.mark.parametrize(("entry", "own"), [*SAME, *OTHER])
def test_an_own_entry_at_another_address_is_told(entry: str, own: str) -> None:
    parsed = read(controller__quorum__voters=f"1@{entry},2@x:1", listeners=f"PLAINTEXT://{own}")
    told = f"controller.quorum.voters has this node at {entry}, and it listens at {own}: other nodes dial {entry}, so "
    told += "correct one of them, unless a proxy or a container's port forwards between them"
    assert (told in parsed.warnings) == ((entry, own) in OTHER)
    given = {"controller__quorum__voters": f"1@{entry}", "listeners": f"PLAINTEXT://{own}"}
    assert told not in read(**given, advertised__listeners=f"PLAINTEXT://{entry}").warnings


def test_advertised_listeners_are_told_instead() -> None:
    config = read(advertised__listeners="PLAINTEXT://example.org:19092").config
    assert config.advertised_listeners.get("PLAINTEXT") == Endpoint("example.org", 19_092)
    assert config.listeners.get("PLAINTEXT") == Endpoint("localhost", 9_092)
    assert refused(advertised__listeners="OTHER://example.org:19092").key == "advertised.listeners"


def test_where_the_log_is() -> None:
    assert read(metadata__log__dir="m", log__dirs="a,b").config.log_dir == Path("m")
    assert read(log__dirs=None, log__dir="d").config.log_dir == Path("d")
    parsed = read(log__dirs="a, b")
    assert parsed.config.log_dir == Path("a")
    assert parsed.warnings == ("of log.dirs only the first has an effect here: a",)
    assert refused(log__dirs="a\0b").key == "log.dirs"


def test_without_controller_listeners_the_first_listener_is_dialed() -> None:
    parsed = read(listeners="B://localhost:9092,A://localhost:2", controller__listener__names=None)
    assert parsed.config.controller_listener_names == ("B",)
    assert parsed.warnings == ("property controller.listener.names is not given: voters use the first of listeners, B",)


@pytest.mark.conformance("H65")
def test_what_is_unknown_is_named_and_nothing_more() -> None:
    parsed = read(some__key="1", process__roles="controller", zookeeper__connect="localhost:2181")
    assert parsed.warnings == ("property some.key is unknown and has no effect",)
    assert parsed.config == read().config
    assert read(node__idd="2").warnings == ("property node.idd is unknown and has no effect; did you mean node.id?",)


@pytest.mark.parametrize("roles", ["controller", "broker,controller", "controller, broker"])
def test_a_node_is_a_controller(roles: str) -> None:
    parsed = read(process__roles=roles)
    assert parsed.config == read().config
    assert len(parsed.warnings) == ("broker" in roles)


@pytest.mark.parametrize("roles", ["", "broker", "controller,controller", "controller,zookeeper", "Controller"])
def test_other_roles_are_refused(roles: str) -> None:
    assert refused(process__roles=roles).key == "process.roles"


NEVER_PASSED_OVER = r"PLAINTEXT|not supported|no listener|none of listeners|no effect without|is required"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ssl.keystore.location", "/etc/keys"),
        ("ssl.client.auth", "required"),
        ("sasl.enabled.mechanisms", "PLAIN"),
        ("sasl.mechanism.controller.protocol", "GSSAPI"),
        ("listener.name.controller.ssl.keystore.type", "PEM"),
        ("listener.name.plaintext.sasl.enabled.mechanisms", "PLAIN"),
        ("authorizer.example.rules", "mine"),
        ("pykraft.voter.principals", "1@User:a"),
        ("security.inter.broker.protocol", "SSL"),
        ("listener.security.protocol.map", "PLAINTEXT:SASL_SSL"),
        ("listener.security.protocol.map", "PLAINTEXT:TLS"),
        ("listener.security.protocol.map", "PLAINTEXT"),
        ("listener.security.protocol.map", ":SSL"),
    ],
)
def test_a_wish_for_protection_is_never_passed_over(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=NEVER_PASSED_OVER):
        node_config({**MINIMAL, key: value})


TLS = {"ssl__client__auth": "required", "ssl__keystore__location": "/n.pem", "ssl__key__password": "s3cret"}


def test_each_listener_has_the_security_of_its_protocol() -> None:
    listeners = "CONTROLLER://localhost:9093,PLAINTEXT://localhost:9092,SSL://localhost:9094"
    given = {"controller__listener__names": "CONTROLLER", "listener__security__protocol__map": "CONTROLLER:SSL"}
    config = read(listeners=listeners, listener__name__ssl__ssl__client__auth="none", **given, **TLS).config
    assert [name for name, _ in config.security] == ["CONTROLLER", "SSL"]
    names = ("CONTROLLER", "SSL", "PLAINTEXT")
    assert [config.security_of(name).text("ssl.client.auth") for name in names] == ["required", "none", ""]
    assert [config.security_of(name).uses_tls for name in names] == [True, True, False]
    assert "s3cret" not in repr(config)


def test_http_is_protected_as_if_it_were_a_listener() -> None:
    mapped, key = "PROMETHEUS:SSL,HTTP:SSL", "listener__name__http__ssl__client__auth"
    config = read(listener__security__protocol__map=mapped, **{key: "none"}, **TLS).config
    names = ("PROMETHEUS", "HTTP", "PLAINTEXT")
    assert [config.security_of(name).text("ssl.client.auth") for name in names] == ["required", "none", ""]
    assert "HTTP has no SASL" in refused(listener__security__protocol__map="HTTP:SASL_SSL", **TLS).allowed
    assert "is none of listeners" in refused(**{key: "none"}).allowed


def test_the_listener_between_nodes_may_be_named_by_kafkas_older_property() -> None:
    given = {"listeners": "SSL://localhost:9093", "controller__listener__names": "SSL", **TLS}
    assert read(**given, security__inter__broker__protocol="SSL").config.security_of("SSL").uses_tls
    problem = refused(**given, security__inter__broker__protocol="PLAINTEXT").allowed
    assert problem == "the listener between nodes is SSL"


def test_tls_of_a_listener_in_the_clear_is_refused() -> None:
    listeners = "PLAINTEXT://localhost:9092,SSL://localhost:9093"
    key = "listener__name__plaintext__ssl__client__auth"
    assert "no listener uses it" in refused(listeners=listeners, **TLS, **{key: "none"}).allowed


@pytest.mark.parametrize("name", ["sasl_plaintext", "SASL_SSL"])
def test_a_listener_is_protected_by_its_name(name: str) -> None:
    listeners, given = f"PLAINTEXT://localhost:9092,{name}://localhost:9093", {"sasl__enabled__mechanisms": "PLAIN"}
    for more in ({}, {"listener__security__protocol__map": STOCK_MAP}):
        assert refused(listeners=listeners, **more).key == "sasl.enabled.mechanisms"
        security = read(listeners=listeners, controller__listener__names="PLAINTEXT", **more, **given).config.security
        assert [(each, found.protocol.value, found.mechanisms) for each, found in security] == [
            (name.upper(), name.upper(), ["PLAIN"])
        ]
    mapped = read(listeners=listeners, listener__security__protocol__map=f"{name}:PLAINTEXT")
    assert len(mapped.config.listeners) == 2


def test_kafkas_stock_protocol_map_protects_nobody_by_itself() -> None:
    parsed = read(listener__security__protocol__map=STOCK_MAP, ssl__keystore__location=" ")
    assert isinstance(parsed.config, NodeConfig)


def test_what_a_leader_sends_is_one_of_two() -> None:
    assert read(pykraft__leader__send="written").config.raft == KAFKAS_RAFT
    assert refused(pykraft__leader__send="all").allowed == "one of written, flushed"


@pytest.mark.parametrize("key", ["listeners", "log.dirs", "controller.quorum.voters", "node.id"])
def test_a_missing_property_names_the_one_that_was_misspelled(key: str) -> None:
    wrong = key[:3] + key[4:]
    with pytest.raises(ConfigError, match=rf"is required: .*; {wrong} is given: did you mean {key}\?") as caught:
        node_config(parse_properties(PRESENT_SAMPLE.replace(f"\n{key}=", f"\n{wrong}=")))
    assert str(caught.value).startswith("line ")
    assert caught.value.key == key


def test_warnings_and_errors_name_the_line() -> None:
    text = "# a comment\n" + PRESENT_SAMPLE.strip()
    last = len(text.splitlines()) + 1
    parsed = node_config(parse_properties(f"{text}\nlistners=x\n"))
    assert parsed.warnings == (f"line {last}: property listners is unknown and has no effect; did you mean listeners?",)
    with pytest.raises(ConfigError, match=f"^line {last}: property node.id = 'x'"):
        node_config(parse_properties(f"{text}\nnode.id=x\n"))


def test_kafkas_clients_are_served_where_and_as_the_properties_say() -> None:
    assert (read().config.client_listeners, read().config.client_topic, read().config.client_records) == (
        (),
        "",
        "auto",
    )
    listeners = "CONTROLLER://:9093,CLIENTS://:9094"
    config = read(
        listeners=listeners,
        controller__listener__names="CONTROLLER",
        pykraft__client__listeners="clients",
        pykraft__client__topic="orders.v1",
        pykraft__client__records="kraft",
    ).config
    assert (config.client_listeners, config.client_topic, config.client_records) == (("CLIENTS",), "orders.v1", "kraft")
    assert refused(pykraft__client__topic="..").value == ".."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("a\tb", {"a": "b"}),
        ("a\fb", {"a": "b"}),
        ("  a  =  b  ", {"a": "b  "}),
        ("a = = b", {"a": "= b"}),
        ("a==b", {"a": "=b"}),
        ("a : = b", {"a": "= b"}),
        ("a", {"a": ""}),
        ("=b", {"": "b"}),
        ("# a=b\n! c=d\n \t# e=f", {}),
        ("\n\r\n\r a=b", {"a": "b"}),
        ("a=b\rc=d\r\ne=f\ng=h", {"a": "b", "c": "d", "e": "f", "g": "h"}),
        ("a=b\x0bc\x1cd\u2028e", {"a": "b\x0bc\x1cd\u2028e"}),
        ("a=b\\\n   c", {"a": "bc"}),
        ("a=b\\\r\n#c", {"a": "b#c"}),
        ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\", {"a": "b"}),
        ("a\\\n=b", {"a": "b"}),
        ("\\\n#a=b", {}),
        (r"a\=b=c", {"a=b": "c"}),
        (r"a\:b\ c=d", {"a:b c": "d"}),
        (r"\#a=b", {"#a": "b"}),
        (r"a=\t\n\r\f\z\"\\", {"a": '\t\n\r\fz"\\'}),
        (r"a=\u00fc\u00DF", {"a": "üß"}),
        (r"a=\uD83D\uDE00", {"a": "\U0001f600"}),
        ("a=1\nb=2\na=3", {"a": "3", "b": "2"}),
        ("ü=ö", {"ü": "ö"}),
        ("", {}),
    ],
)
def test_java_format(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


@pytest.mark.parametrize("value", [r"\u12", r"\uZZZZ", r"\u", r"\uD83D", r"\uDE00\uD83D"])
def test_a_broken_unicode_escape_is_refused_with_its_key(value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_properties(f"some.key={value}")
    assert (caught.value.key, caught.value.value) == ("some.key", value)


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        properties = parse_properties(text)
    except ConfigError:
        return
    "".join([*properties, *properties.values()]).encode("utf-8")


@given(st.dictionaries(st.text(max_size=8), st.text(max_size=8)))
def test_what_is_escaped_like_java_does_comes_back(properties: dict[str, str]) -> None:
    def escaped(text: str) -> str:
        units = text.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))

    text = "\n".join(f"{escaped(key)}={escaped(value)}" for key, value in properties.items())
    assert parse_properties(text) == properties


def test_the_origin_of_a_key_is_the_line_where_its_last_value_begins() -> None:
    properties = parse_properties("# one\na=1\n\nb=2,\\\n  3\r\nc=4\na=5\nd=\\\n")
    assert properties == {"a": "5", "b": "2,3", "c": "4", "d": ""}
    assert properties.origins == {"a": "line 7", "b": "line 4", "c": "line 6", "d": "line 8"}
    assert (origin_of(properties, "b"), origin_of(properties, "e"), origin_of({"a": "1"}, "a")) == ("line 4", "", "")


def test_the_origin_names_the_file_or_the_option() -> None:
    properties = parse_properties("a=1\nb=2\n", "some.file")
    properties.give("b", "3", "--override")
    properties.give("c", "4", "--override")
    assert properties == {"a": "1", "b": "3", "c": "4"}
    assert [origin_of(properties, key) for key in "abcd"] == [
        "some.file: line 1",
        "--override",
        "--override",
        "some.file",
    ]
    assert origin_of(properties, "d", "b") == "--override"
    with pytest.raises(ConfigError, match=r"^some\.file: line 2: property b = "):
        parse_properties("a=1\nb=\\uZZ\n", "some.file")


def test_an_error_about_a_property_gets_its_origin_once() -> None:
    properties = parse_properties("a=1\n", "some.file")
    with (
        pytest.raises(AddressInUseError, match=r"^some\.file: line 1: property a = '1': no$"),
        with_origins(Properties("another.file")),
        with_origins(properties),
    ):
        raise AddressInUseError("a", "1", "no")


def test_a_line_without_a_separator_is_told() -> None:
    found = parse_properties("foo\nbar=\nbaz \t\nqux:\nlisten ers\na\\=b\nback=1\nback\nforth\nforth=1\n")
    assert found.bare == {"foo", "baz", "a=b", "back"}
    assert not found["foo"]
    assert is_bare(found, "foo")
    assert not is_bare(dict(found), "foo")


def test_a_warning_or_error_says_that_the_line_has_no_value() -> None:
    rest = "node.id=1\nlisteners=A://h:1\ncontroller.quorum.voters=1@h:1\nlog.dirs=d\n"
    what = "has no value, and is no known property"
    hint = "a line is key=value, and goes on in the next after a backslash"
    assert node_config(parse_properties(f"{rest}foo\nlistners\nlog.dir\n")).warnings == (
        f"line 5: 'foo' {what}; {hint}",
        f"line 6: 'listners' {what}; did you mean listeners?; {hint}",
        "line 7: property log.dir has no value and no effect: write log.dir=VALUE",
    )
    with pytest.raises(
        ConfigError, match=r"f: line 5: property log\.dirs is required: .*; this line has no value: write"
    ):
        node_config(parse_properties(f"{rest}log.dirs\n", "f"))
