"""The short form of `tests.machine.typed_fuzz`, and what it notices."""

import logging
from pathlib import Path
from typing import Any

import pytest

from pykraft.machine.state_machine import _tagged
from tests.machine.typed_fuzz import Forms, run


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, logger="pykraft")


@pytest.mark.parametrize("seed", [1, 2])
async def test_no_command_or_result_of_wrong_shape_hurts(tmp_path: Path, seed: int) -> None:
    counts = await run(tmp_path, inputs=600, seed=seed)
    assert {what.split(":")[0] for what in counts} == {"execute", "Forward", "HTTP"}
    assert sum(counts.values()) == 600


async def test_a_leader_that_checks_no_types_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serde = type(Forms.commands)
    strict = serde.deserialize_new  # type: ignore[attr-defined]

    def careless(self: Any, data: bytes) -> Any:
        try:
            return strict(self, data)
        except TypeError:
            name, values = _tagged(data)
            return self._classes[name](**values)

    monkeypatch.setattr(serde, "deserialize_new", careless)
    with pytest.raises(AssertionError, match=r"got into the log|was applied|error_code"):
        await run(tmp_path, inputs=500, seed=1)
