"""Which nodes to ask and for how long, from the command line and Kafka's file of client properties."""

from pathlib import Path

import pytest

from pykraft.cli.client_options import ClientOptions, admin_of, client_options, joined
from pykraft.cli.config_file import CONFIG_SIZE_BYTES_MAX
from pykraft.client.remote.admin import Admin
from pykraft.errors import ConfigError, UsageError
from pykraft.types import Endpoint


def options(
    *,
    controllers: str | None = "localhost:9093",
    servers: str | None = None,
    command_config: Path | None = None,
    timeout_s: float | None = None,
) -> ClientOptions:
    return client_options(
        controllers=controllers, servers=servers, command_config=command_config, timeout_s=timeout_s, client_id="test"
    )


def write(folder: Path, content: bytes) -> Path:
    path = folder / "client.properties"
    path.write_bytes(content)
    return path


def test_defaults() -> None:
    assert options() == ClientOptions(
        bootstrap=(Endpoint("localhost", 9093),),
        is_controllers=True,
        client_id="test",
        timeout_ms=15_000,
        request_timeout_ms=5_000,
    )
    assert not options(controllers=None, servers="a:1").is_controllers


def test_the_file_says_the_rest_and_the_command_line_counts(tmp_path: Path) -> None:
    text = b"client.id = me\nrequest.timeout.ms=70\ndefault.api.timeout.ms=80\nnode.id=1\nsecurity.protocol=plaintext\n"
    path = write(tmp_path, text)
    found = options(command_config=path)
    assert (found.client_id, found.request_timeout_ms, found.timeout_ms) == ("me", 70, 80)
    assert options(command_config=path, timeout_s=0.5).timeout_ms == 500


@pytest.mark.parametrize(("controllers", "servers"), [(None, None), ("a:1", "b:2")])
def test_one_list_is_needed_and_not_two(controllers: str | None, servers: str | None) -> None:
    with pytest.raises(UsageError, match="--bootstrap-controller, --bootstrap-server: give one of them"):
        options(controllers=controllers, servers=servers)


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, float("nan"), float("inf"), 86_401.0])
def test_a_time_is_positive_and_ends(timeout_s: float) -> None:
    with pytest.raises(UsageError, match="--timeout"):
        options(timeout_s=timeout_s)


@pytest.mark.parametrize(
    "content",
    [
        b"security.protocol=KERBEROS",
        b"ssl.truststore.location=/a",
        b"sasl.mechanism=PLAIN",
        b"request.timeout.ms=soon",
        b"default.api.timeout.ms=0",
        b"default.api.timeout.ms=9999999999",
        b"a=\\u12",
    ],
)
def test_a_property_that_cannot_be_met_is_named(content: bytes, tmp_path: Path) -> None:
    path = write(tmp_path, b"# of a client\n" + content)
    with pytest.raises(ConfigError, match=f"^{path}: line 2: property {content.partition(b'=')[0].decode()} = "):
        options(command_config=path)


@pytest.mark.parametrize("content", [b"\0\1\2", b"#" * (CONFIG_SIZE_BYTES_MAX + 1)], ids=["binary", "large"])
def test_a_file_that_is_no_properties_file_is_refused(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a properties file is text"):
        options(command_config=write(tmp_path, content))


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        options(command_config=tmp_path / "absent")
    with pytest.raises(UsageError, match="Is a directory"):
        options(command_config=tmp_path)


NONE = dict.fromkeys(("bootstrap_controller", "bootstrap_server", "command_config", "timeout"))


def test_an_option_counts_wherever_it_stands() -> None:
    before = joined({**NONE, "bootstrap_controller": "h:1"}, {**NONE, "timeout": 2.0})
    after = joined({**NONE, "timeout": 2.0}, {**NONE, "bootstrap_controller": "h:1"})
    assert before == after


async def test_the_client_has_the_options() -> None:
    options = joined({**NONE, "bootstrap_server": "h:1"}, {**NONE, "timeout": 2.0})
    async with admin_of(options) as admin:
        assert isinstance(admin, Admin)


def test_twice_is_once_too_often() -> None:
    with pytest.raises(UsageError, match="--timeout is given twice"):
        joined({**NONE, "timeout": 1.0}, {**NONE, "timeout": 2.0})
