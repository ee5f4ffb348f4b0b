"""Configurations of a world: ids, ports and voters agree, and the seed decides the rest."""

from random import Random

from pykraft.sim.scenario import settings
from pykraft.sim.scenario.scenario import QuorumSettings
from pykraft.types import Endpoint


def test_voters_come_first_and_observers_are_not_among_them() -> None:
    configs = settings.node_configs(3, 2, QuorumSettings(), Random(1))
    assert [config.node_id for config in configs] == [1, 2, 3, 4, 5]
    for config in configs:
        assert config.voters.ids == (1, 2, 3)
        assert config.advertised_listeners == settings.listeners_of(int(config.node_id or 0))


def test_the_port_of_a_node_is_its_id() -> None:
    assert settings.listeners_of(7).get(settings.LISTENER) == Endpoint("node-7", 7)


def test_nodes_share_timeouts_and_have_directories_of_their_own() -> None:
    configs = settings.node_configs(5, 0, QuorumSettings(), Random(1))
    assert len({config.raft for config in configs}) == 1
    assert len({config.directory_id for config in configs}) == 5
    assert settings.node_configs(5, 0, QuorumSettings(), Random(1)) == configs
    assert len({settings.node_configs(1, 0, QuorumSettings(), Random(seed))[0].raft for seed in range(20)}) > 5


def test_segments_may_be_small() -> None:
    configs = settings.with_small_segments(settings.node_configs(3, 0, QuorumSettings(), Random(1)))
    assert {config.log.segment_size_bytes for config in configs} == {settings.SMALL_SEGMENT_BYTES}


def test_a_world_may_serve_no_operators() -> None:
    configs = settings.without_operators(settings.node_configs(3, 0, QuorumSettings(), Random(1)))
    assert {config.operator_listeners for config in configs} == {()}


def test_a_node_reads_long_answers_where_it_reads_no_long_requests() -> None:
    (config,) = settings.node_configs(1, 0, QuorumSettings(request_size_bytes_max=8_192), Random(1))
    limits = settings.size_limits(config)
    assert limits == settings.SizeLimits(request_bytes=8_192, answer_bytes=config.answer_size_bytes_max)
    assert limits.answer_bytes > limits.request_bytes
