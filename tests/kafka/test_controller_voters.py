"""Our tool adds voters to Kafka's controllers and removes them; our observer learns it from their log.

Kafka's tool says the same before and after. The second controller is Kafka's own; then our observer, which never leads,
becomes a voter itself for a while. Only Kafka's leader can add either.
"""

from pathlib import Path

import pytest

from lab.kafka.java import Kafka, Main
from pykraft.errors import OutcomeUnknownError, RefusedError, UsageError
from pykraft.local.child import Children, wait_until
from pykraft.local.voters import HOST
from pykraft.log.small_files.meta import FILE_NAME, parse_meta
from pykraft.types import ZERO_UUID, uuid_text
from tests.kafka.controller import JavaController
from tests.kafka.observer import MetadataObserver
from tests.kafka.test_quorum_tool import STATUS, masked_status, ours, shown, wait_for_controller
from tests.kafka.test_voter_tool import voters_in

pytestmark = pytest.mark.kafka


def directory_id(controller: JavaController) -> str:
    path = controller.partition.parent / FILE_NAME
    found = parse_meta(path, path.read_bytes()).directory_id
    assert found is not None
    return uuid_text(found)


@pytest.mark.conformance(150, 151)
def test_our_tool_changes_kafkas_voters_and_our_observer_follows(
    kafka: Kafka, children: Children, tmp_path: Path
) -> None:
    first = JavaController(kafka, children, tmp_path / "n1")
    second = JavaController(kafka, children, tmp_path / "n2", node_id=2, joins=first)
    observer = MetadataObserver(children, tmp_path / "n9", first, never_leads=True)
    java = first.start()
    wait_for_controller(first, java)
    alive = [java, second.start(), observer.start()]

    everywhere = ("--bootstrap-controller", f"{HOST}:{first.controller_port}")
    itself = ("--bootstrap-controller", f"{HOST}:{observer.port}")
    add = (*everywhere, "--command-config", str(second.config), "add-controller")
    dry = ours("quorum", *add, "--dry-run").output
    assert dry == kafka.run(Main.QUORUM, *add, "--dry-run").stdout
    assert f"controller 2 with directory id {directory_id(second)} and endpoints: CONTROLLER://{HOST}:" in dry

    def added(*words: str) -> bool:
        """It has to catch up first."""
        result = ours("quorum", *words)
        assert result.exit_code == 0 or isinstance(result.exception, RefusedError | OutcomeUnknownError), (
            result.exception
        )
        return result.exit_code == 0

    wait_until(lambda: added(*add), "controller 2 to be a voter", alive=alive)
    again = ours("quorum", *add)
    assert isinstance(again.exception, RefusedError)
    assert "DUPLICATE_VOTER" in str(again.exception)

    wait_until(lambda: observer.voters() == [1, 2], "the observer to know both voters", alive=alive)
    mine, theirs = shown(kafka, *itself, *STATUS)
    assert masked_status(mine) == masked_status(theirs)
    assert voters_in(theirs) == [1, 2]
    assert directory_id(second) in theirs

    remove = (*everywhere, "remove-controller", "--controller-id", "2", "--controller-directory-id")
    wrong = ours("quorum", *remove, directory_id(first))
    assert isinstance(wrong.exception, RefusedError)
    assert "VOTER_NOT_FOUND" in str(wrong.exception)
    wrong = ours("quorum", *remove, uuid_text(ZERO_UUID))
    assert isinstance(wrong.exception, RefusedError | UsageError)
    assert ours("quorum", *remove, directory_id(second)).exit_code == 0
    wait_until(lambda: observer.voters() == [1], "the observer to know the only voter", alive=alive)

    add = (*everywhere, "--command-config", str(observer.config), "add-controller")
    wait_until(lambda: added(*add), "our node to be a voter", alive=alive)
    wait_until(lambda: observer.voters() == [1, 9], "our node to know that it votes", alive=alive)
    remove = (*everywhere, "remove-controller", "--controller-id", "9", "--controller-directory-id")
    assert ours("quorum", *remove, observer.directory_id).exit_code == 0
    wait_until(lambda: observer.voters() == [1], "our node to know that it votes no more", alive=alive)
