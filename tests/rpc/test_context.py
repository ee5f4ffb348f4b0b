"""What a node names on the wire, from its configuration."""

from dataclasses import replace

from pykraft.rpc.context import RpcContext
from tests.host.fakes import CONTEXT, LISTENER, config


def test_a_node_names_its_cluster_its_topic_and_the_first_listener_in_upper_case() -> None:
    node = config(1)
    assert RpcContext.of(node) == CONTEXT
    renamed = replace(node, controller_listener_names=(LISTENER.lower(),))
    assert RpcContext.of(renamed) == CONTEXT
