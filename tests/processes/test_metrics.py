"""Prometheus scrapes running servers: leader and followers, rates of the load, and no answer after the end."""

import re
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lab.nodes.cluster import Cluster, PykraftNode
from pykraft.local.child import Children
from pykraft.local.voters import QUICK

pytestmark = [pytest.mark.processes, pytest.mark.conformance(54)]


def url(node: PykraftNode) -> str:
    """Where the node says that its metrics are."""
    found = re.search(r"metrics are at (http://\S+)", node.log_path.read_text())
    assert found is not None
    return found[1]


def scrape(node: PykraftNode) -> dict[str, float]:
    """All values that are not zero labels of a state; the state that holds is named after a colon."""
    with urlopen(url(node), timeout=10) as answer:  # noqa: S310 - it is what the node itself has told
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {
        ":".join([sample.name, *sample.labels.values()]).removeprefix("pykraft_raft_"): sample.value
        for family in families
        for sample in family.samples
        if not sample.labels or sample.value
    }


def test_leader_and_followers_are_scraped_under_load(children: Children, tmp_path: Path) -> None:
    cluster = Cluster(children, tmp_path, properties={**QUICK, "pykraft.prometheus.listener": "127.0.0.1:0"})
    led = cluster.start()
    cluster.journal.wait_for_acknowledged(1_000, since=0)
    cluster.wait_until_caught_up()
    told = {node_id: scrape(node) for node_id, node in cluster.nodes.items()}
    for node_id, values in told.items():
        assert (values["current_leader"], values["number_of_voters"]) == (led.node, 3)
        assert values["current_epoch"] == values["log_end_epoch"] == led.epoch
        assert 0 < values["high_watermark"] <= values["log_end_offset"]
        assert values["closed_for_violation_total"] == 0
        assert 0 <= values["poll_idle_ratio_avg"] <= 1
        leads = node_id == led.node
        assert values["current_state:leader" if leads else "current_state:follower"] == 1
        assert (values["append_records_rate"] > 0, values["fetch_records_rate"] > 0) == (leads, not leads)
        assert ("number_of_observers" in values) == leads
    assert told[led.node]["commit_latency_avg"] <= told[led.node]["commit_latency_max"]
    assert told[led.node]["current_vote"] == led.node

    with pytest.raises(HTTPError, match="404"):
        urlopen(url(cluster.nodes[1]).removesuffix("metrics"), timeout=10)  # noqa: S310 - as above
    cluster.stop()
    with pytest.raises(URLError, match="refused"):
        scrape(cluster.nodes[1])
    assert not [node for node in cluster.nodes.values() if "Traceback" in node.log_path.read_text()]
