"""The first voters, from options; the tests of ``pykraft storage`` cover most of it."""

from __future__ import annotations

import pytest

from pykraft.cli.initial_voters import parse_controllers
from pykraft.errors import UsageError
from pykraft.types import NodeId, uuid_parse

DIRECTORY_ID = "MrUabWf55NPhe7sFKQnEEg"


@pytest.mark.conformance(142)
def test_a_list_means_the_same_in_any_order() -> None:
    one, two = f"1@h1:9093:{DIRECTORY_ID}", "2@[::1]:9094:k_Eg7DHZQauczDshubdK-A"
    voters = parse_controllers(f"{one},{two}", "controller")
    assert voters == parse_controllers(f" {two} , {one} ", "CONTROLLER")
    first = voters.get(NodeId(1))
    assert first is not None
    assert (first.key.directory_id, first.kraft_version.max_version) == (uuid_parse(DIRECTORY_ID), 1)


@pytest.mark.conformance(142)
def test_a_hostile_list_is_refused_in_no_time() -> None:
    with pytest.raises(UsageError, match="not have the form"):
        parse_controllers("1" * 100_000 + "@" * 100_000, "CONTROLLER")
