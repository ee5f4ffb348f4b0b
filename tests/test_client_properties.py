"""The properties about Kafka's own clients.

Source: Kafka's ``Topic.validate``; ours (ADR 065).
"""

from __future__ import annotations

from tests.test_properties import read, refused


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
