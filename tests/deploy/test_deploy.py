"""The files in ``deploy`` agree with the command line, with the properties, and with each other.

Every command in them parses, every node's configuration is valid and free of warnings, each node is told to the others
by the name under which it is a voter, and ports, folders and names are the same wherever a file repeats them.
"""

import configparser
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from pykraft.cli.config_file import checked_config, override, read_properties
from pykraft.cli.errors import EXIT_CODES, EXIT_DIRECTORY, EXIT_USAGE
from pykraft.cli.main import pykraft
from pykraft.config import LOOPBACK, NodeConfig
from pykraft.security.settings import Security
from tests.tidy.repository import ROOT

DEPLOY = ROOT / "deploy"
PROPERTIES = DEPLOY / "node.properties"
HAND_OVER_S = 5
"""How long a node that is stopped may take."""


def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions and their arguments, with continued lines joined."""
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.MULTILINE))
    found = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    return [(name, arguments) for name, arguments in found]


def final_stage() -> dict[str, str]:
    """The last instruction of each kind in the image that is run."""
    found = instructions()
    last = max(place for place, (name, _) in enumerate(found) if name == "FROM")
    return dict(found[last:])


def compose() -> dict[str, Any]:
    content = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert isinstance(content, dict)
    return content


def kubernetes() -> dict[str, dict[str, Any]]:
    """The objects by kind; of each kind the one that has the name of all."""
    found = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
    return {each["kind"]: each for each in found if each["metadata"]["name"] == "pykraft"}


def container() -> dict[str, Any]:
    [found] = kubernetes()["StatefulSet"]["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def unit() -> configparser.RawConfigParser:
    class Unit(configparser.RawConfigParser):
        def optionxform(self, optionstr: str) -> str:
            return optionstr

    found = Unit(strict=False)
    found.read(DEPLOY / "pykraft.service")
    return found


def commands() -> Iterator[list[str]]:
    """All command lines of pykraft in the files, without the program's name."""
    image = final_stage()
    assert json.loads(image["ENTRYPOINT"]) == ["pykraft"]
    yield json.loads(image["CMD"])
    yield json.loads(image["HEALTHCHECK"].partition("CMD ")[2])[1:]
    yield container()["args"]
    yield container()["readinessProbe"]["exec"]["command"][1:]
    yield shlex.split(unit()["Service"]["ExecStart"])[1:]
    for path in (*DEPLOY.iterdir(), ROOT / "docs" / "deploy.md"):
        text = re.sub(r"\\\n#?\s*", "", path.read_text())  # continued lines
        for words in re.findall(r"^#?\s*(?:\S+ .*exec \S+ (?:-- )?)?pykraft (\w+ --.+)$", text, re.MULTILINE):
            yield shlex.split(words)


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_each_command_parses(words: Sequence[str]) -> None:
    command: click.Command = pykraft
    context = click.Context(command)
    name: str | None = "pykraft"
    rest = list(words)
    while isinstance(command, click.Group):
        _, rest, _ = command.make_parser(context).parse_args(rest)
        name, found, rest = command.resolve_command(context, rest)
        assert found is not None
        command = found
    command.make_context(name, rest)


def check_node(config: NodeConfig, own_name: str) -> None:
    """The node is told to the others by the name under which it is a voter, and keeps its log where it is kept."""
    [(_, endpoint)] = config.advertised_listeners
    assert config.node_id in config.voters.ids
    assert f"{config.node_id}@{endpoint}" in voters(config)
    assert endpoint.host == own_name


def config_with(path: Path, overrides: list[str]) -> NodeConfig:
    properties = read_properties(path)
    override(properties, overrides, "--override")
    return checked_config(properties)


def voters(config: NodeConfig) -> list[str]:
    """``id@host:port`` of each voter."""
    return [f"{voter.key.id}@{voter.listeners.entries[0][1]}" for voter in config.voters.voters]


def test_the_image_runs_a_quorum_of_one_as_a_user_without_rights(caplog: pytest.LogCaptureFixture) -> None:
    config = checked_config(read_properties(PROPERTIES))
    check_node(config, "localhost")
    check_security(config, DEPLOY / "client.properties")
    image = final_stage()
    assert all(int(number) > 0 for number in image["USER"].split(":"))
    assert image["STOPSIGNAL"] == "SIGTERM"
    assert Path(image["VOLUME"]) == config.log_dir
    assert exposed_ports(config) == {int(port) for port in image["EXPOSE"].split()}
    assert "--command-config" in image["HEALTHCHECK"]
    assert f"localhost:{config.listeners.entries[0][1].port}" in image["HEALTHCHECK"]
    assert caplog.messages == []


def exposed_ports(config: NodeConfig) -> set[int]:
    """Those that others reach; a node's own machine reads the metrics."""
    assert config.prometheus_listener is not None
    assert config.prometheus_listener.host in LOOPBACK
    return {config.listeners.entries[0][1].port}


def check_security(config: NodeConfig, client: Path) -> None:
    """Each end needs a certificate, and tools on the machine of the node show that of the node."""
    [(name, security)] = config.security
    assert name == config.listeners.entries[0][0]
    assert security.text("ssl.client.auth") == "required"
    tool = Security.of_client(read_properties(client))
    for store in ("ssl.keystore.location", "ssl.truststore.location"):
        assert tool.text(store) == security.text(store) != ""


def files_of(config: NodeConfig) -> set[str]:
    """The files with certificates that a node reads."""
    [(_, security)] = config.security
    return {security.text(f"ssl.{store}.location") for store in ("keystore", "truststore")}


def test_the_image_gets_what_its_build_copies() -> None:
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    copied = [arguments.split() for name, arguments in instructions() if name == "COPY" and "--from" not in arguments]
    sources = [source for *sources, _ in copied for source in sources]
    assert "src" in sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in ignored, source


def test_compose_runs_three_voters_that_agree(caplog: pytest.LogCaptureFixture) -> None:
    content = compose()
    seen = []
    for name, service in content["services"].items():
        config = config_with(PROPERTIES, service["environment"]["PYKRAFT_OVERRIDE"].split())
        check_node(config, name)
        volume, *stores = service["volumes"]
        assert volume == f"{name}:{config.log_dir}"
        assert {store.split(":")[1] for store in stores} == files_of(config)
        assert all(store.endswith(":ro") for store in stores)
        assert f"./certs/{name}.pem" == stores[0].split(":")[0]
        # Without one it refuses: all would have the same.
        assert service["environment"]["PYKRAFT_CLUSTER_ID"].startswith("${PYKRAFT_CLUSTER_ID:?")
        assert name in content["volumes"]
        assert int(service["stop_grace_period"].removesuffix("s")) > HAND_OVER_S
        seen.append((config.node_id, voters(config)))
    assert [node_id for node_id, _ in seen] == [1, 2, 3]
    assert all(told == seen[0][1] for _, told in seen)
    assert caplog.messages == []


def test_kubernetes_runs_three_voters_that_agree(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    objects = kubernetes()
    spec = objects["StatefulSet"]["spec"]
    path, client = tmp_path / "node.properties", tmp_path / "client.properties"
    for file in (path, client):
        file.write_text(objects["ConfigMap"]["data"][file.name])
    assert [variable["name"] for variable in container()["env"]] == ["POD_INDEX", "POD_NAME", "PYKRAFT_CLUSTER_ID"]
    hosts = objects["Certificate"]["spec"]["dnsNames"]
    name = objects["StatefulSet"]["metadata"]["name"]
    for index in range(spec["replicas"]):
        arguments = [
            word.replace("$(POD_INDEX)", str(index)).replace("$(POD_NAME)", f"{name}-{index}")
            for word in container()["args"]
        ]
        config = config_with(path, [word for word in arguments if "=" in word])
        check_node(config, f"{name}-{index}.{objects['Service']['metadata']['name']}")
        check_security(config, client)
        assert config.advertised_listeners.entries[0][1].host in hosts
        assert {str(Path(file).parent) for file in files_of(config)} == {mounts()["tls"]}
        assert len(config.voters.ids) == spec["replicas"]
        assert exposed_ports(config) == {port["containerPort"] for port in container()["ports"]}
        assert str(config.log_dir).startswith(mounts()["data"])
        assert arguments[2] == f"{mounts()['config']}/{path.name}"
    assert "localhost" in hosts, "the probe dials it"
    assert caplog.messages == []


def test_pods_get_their_certificate_and_only_clients_reach_them() -> None:
    objects = kubernetes()
    volumes = {each["name"]: each for each in objects["StatefulSet"]["spec"]["template"]["spec"]["volumes"]}
    certificate = objects["Certificate"]["spec"]
    assert volumes["tls"]["secret"]["secretName"] == certificate["secretName"]
    assert {"server auth", "client auth"} <= set(certificate["usages"])
    assert certificate["additionalOutputFormats"] == [{"type": "CombinedPEM"}]
    policy = objects["NetworkPolicy"]["spec"]
    labels = objects["StatefulSet"]["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"] == labels
    assert policy["policyTypes"] == ["Ingress"]
    [rule] = policy["ingress"]
    assert {"podSelector": {"matchLabels": labels}} in rule["from"]
    assert [port["port"] for port in rule["ports"]] == [port["name"] for port in container()["ports"]]


def mounts() -> Mapping[str, str]:
    return {mount["name"]: mount["mountPath"] for mount in container()["volumeMounts"]}


def test_the_objects_of_kubernetes_name_each_other() -> None:
    objects = kubernetes()
    spec = objects["StatefulSet"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    assert spec["serviceName"] == objects["Service"]["metadata"]["name"]
    assert objects["Service"]["spec"]["selector"] == labels
    assert objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels
    assert spec["selector"]["matchLabels"] == labels
    names = {port["name"] for port in container()["ports"]}
    assert {port["targetPort"] for port in objects["Service"]["spec"]["ports"]} == names
    assert {container()[probe]["tcpSocket"]["port"] for probe in ("startupProbe", "livenessProbe")} <= names
    volumes = {each["name"] for each in spec["template"]["spec"]["volumes"]}
    volumes |= {each["metadata"]["name"] for each in spec["volumeClaimTemplates"]}
    assert set(mounts()) == volumes
    assert objects["PodDisruptionBudget"]["spec"]["maxUnavailable"] <= (spec["replicas"] - 1) // 2
    assert spec["podManagementPolicy"] == "Parallel"
    assert objects["Service"]["spec"]["publishNotReadyAddresses"] is True
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] > HAND_OVER_S
    rights = spec["template"]["spec"]["securityContext"]
    assert f"{rights['runAsUser']}:{rights['runAsGroup']}" == final_stage()["USER"]


def test_a_probe_waits_longer_than_the_command_that_it_runs() -> None:
    for words, timeout_s in (
        (container()["readinessProbe"]["exec"]["command"], container()["readinessProbe"]["timeoutSeconds"]),
        (
            json.loads(final_stage()["HEALTHCHECK"].partition("CMD ")[2]),
            int(re.findall(r"--timeout=(\d+)s", final_stage()["HEALTHCHECK"])[0]),
        ),
    ):
        assert int(words[words.index("--timeout") + 1]) < timeout_s


def test_the_service_is_ready_when_the_node_says_so_and_not_restarted_in_vain() -> None:
    service = unit()["Service"]
    assert service["Type"] == "notify"
    final = {int(code) for code in service["RestartPreventExitStatus"].split()}
    assert final == {EXIT_USAGE, EXIT_DIRECTORY}
    assert final <= set(EXIT_CODES)
    assert int(service["TimeoutStopSec"]) > HAND_OVER_S
    assert service["User"] == "pykraft"
    program = service["ExecStart"].split()[0]
    assert service["ExecReload"].split() == [program, "quorum", "reload", f"/var/lib/{service['StateDirectory']}"]
    assert service["EnvironmentFile"] == "/etc/pykraft/environment"  # it must be there
