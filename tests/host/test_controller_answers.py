"""Each answer, read by kio in each version, is NOT_CONTROLLER.

Source: Kafka's message definitions, as kio has them; ADR 078.
"""

from typing import Any

import pytest
from kio.index import load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from pykraft.host.controller_answers import ANSWERS, SERVED, ControllerApi, answer

EVERY = [(key, version) for key, one in SERVED.items() for version in range(one.min, one.max + 1)]


@pytest.mark.parametrize(("api_key", "version"), EVERY)
def test_it_is_what_kafka_can_read(api_key: int, version: int) -> None:
    told = answer(api_key, 7)
    assert told[:5] == (7).to_bytes(4, "big") + b"\0"
    read, size = entity_reader(load_response_schema(api_key, version))(told, 5)
    found: Any = read
    assert (found.error_code, 5 + size) == (ErrorCode.not_controller, len(told))


def test_every_api_has_an_answer() -> None:
    assert set(ANSWERS) == set(ControllerApi)
