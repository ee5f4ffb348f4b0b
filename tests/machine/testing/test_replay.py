"""What another process does in another way is said, for each part of a call; an equal one says nothing."""

import re
from dataclasses import replace
from typing import Any

import pytest

from pykraft.errors import CommandRejectedError
from pykraft.machine import Applied
from pykraft.machine.testing.recorded import AppliedCall, digest_of
from pykraft.machine.testing.replay import Replayer, first_difference
from tests.machine.counters import Add, Counters


def replayed(machine: Counters, keys: str) -> list[AppliedCall]:
    """What this machine does with additions to these keys."""
    calls = []
    for offset, key in enumerate(keys):
        context = Applied(offset, 1, offset, 1)
        try:
            answer = repr(machine.results.serialize(machine.apply(Add(key, 1), context)))
        except CommandRejectedError as error:
            answer = f"rejected: {error}"
        command = machine.commands.serialize(Add(key, 1))
        calls.append(AppliedCall(offset, offset, key, answer, digest_of(machine), command, context))
    return calls


def test_an_equal_machine_has_no_difference() -> None:
    assert first_difference(Counters(), replayed(Counters(), "xyx")) is None


@pytest.mark.parametrize(
    ("field", "what"), [("answer", "answered y with b'1'"), ("digest", "state .* after y at offset 1")]
)
def test_the_first_difference_is_named(field: str, what: str) -> None:
    calls = replayed(Counters(), "xyx")
    other: dict[str, Any] = {field: "another"}
    calls[1] = replace(calls[1], **other)
    assert re.search(what, str(first_difference(Counters(), calls)))


def test_the_other_process_has_another_hash_seed_and_ends_with_its_block() -> None:
    applied = replace(replayed(Counters(), "x")[0], command=Add("x", 1))
    with Replayer(Counters) as replayer:
        assert replayer.difference([applied]) is None
        assert replayer.count == 1
        process = replayer._process
        assert process is not None
        assert process.is_alive()
    assert process.exitcode == 0
