"""A package tells whether its hot modules are compiled."""

from __future__ import annotations

import pytest

from pykraft.process import hot_modules
from pykraft.process.hot_modules import is_compiled, kind_of_modules


def test_a_clone_is_plain_python() -> None:
    assert not is_compiled()
    assert kind_of_modules() == "plain Python"


def test_the_shared_code_of_compiled_modules_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hot_modules, "find_spec", lambda name: name if name == "pykraft__mypyc" else None)
    assert is_compiled()
    assert kind_of_modules() == "compiled"
