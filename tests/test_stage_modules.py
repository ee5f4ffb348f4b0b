"""A stage's run imports its modules only, and a test that it would miss is an error."""

from pathlib import Path

import pytest

from tests.stage_modules import MODULES_OF, check_modules, pytest_ignore_collect

HERE = Path(__file__)


class Given:
    """A configuration with this option."""

    def __init__(self, stage: str | None) -> None:
        self._stage = stage

    def getoption(self, name: str) -> str | None:
        """See `pytest.Config`."""
        assert name == "--modules-of"
        return self._stage


def left_out(stage: str | None, path: str) -> bool:
    """Whether a module of the tests is not imported."""
    return bool(pytest_ignore_collect(HERE.parent / path, Given(stage)))  # type: ignore[arg-type]


def test_modules_of_other_stages_are_left_out() -> None:
    assert not left_out("kafka", "kafka/test_chaos.py")
    assert left_out("kafka", "core/test_raft.py")
    assert not left_out(None, "core/test_raft.py")
    assert not left_out("kafka", "core/__init__.py")
    assert [stage for stage in MODULES_OF if left_out(stage, "documented/test_pages.py")] == []
    assert not left_out("spark", "spark/session/test_local.py")


@pytest.mark.parametrize("marker", ["kafka", "sim", "browser"])
def test_a_test_that_its_stage_would_not_collect_is_an_error(
    marker: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    here = request.node
    module = tmp_path / "test_one.py"
    module.write_text("")
    one = pytest.Function.from_parent(here.parent, name=here.name, callobj=lambda: None)
    one.path = module
    check_modules([one])
    one.add_marker(marker)
    with pytest.raises(pytest.UsageError, match=f"is marked {marker}"):
        check_modules([one])
