"""The error tree is as its module draws it, the codes are Kafka's, and each message says what to do."""

import pickle

import kio.schema.errors
import pytest

from pykraft import errors
from pykraft.errors import (
    ConfigError,
    CorruptionError,
    ErrorCode,
    NotLeaderError,
    ProtocolError,
    PykraftError,
    StorageError,
    UsageError,
)


def tree(root: type[Exception], depth: int = 0) -> list[tuple[int, str]]:
    below = [
        line
        for child in root.__subclasses__()
        if child.__module__ == errors.__name__
        for line in tree(child, depth + 1)
    ]
    return [(depth, root.__name__), *below]


def test_the_tree_in_the_docstring_is_the_tree_of_classes() -> None:
    lines = [line for line in str(errors.__doc__).splitlines() if line.startswith("    ")]
    drawn = [((len(line) - len(line.lstrip()) - 4) // 2, line.split()[0]) for line in lines]
    assert sorted(drawn) == sorted(tree(PykraftError))
    assert drawn[0] == (0, "PykraftError")


NEWER_THAN_KIO = {"CONTROLLER_ID_NOT_REGISTERED": 136}
"""Error codes of Kafka 4.4 (KIP-1312)."""


@pytest.mark.parametrize("code", ErrorCode)
def test_codes_are_kafkas(code: ErrorCode) -> None:
    if code.name in NEWER_THAN_KIO:
        assert code.value == NEWER_THAN_KIO[code.name]
    else:
        assert kio.schema.errors.ErrorCode(code.value).name == code.name.lower()


def test_a_protocol_error_carries_the_code_to_answer_with() -> None:
    assert ProtocolError("odd").code is ErrorCode.INVALID_REQUEST
    assert ProtocolError("torn", ErrorCode.CORRUPT_MESSAGE).code is ErrorCode.CORRUPT_MESSAGE


def test_a_bad_property_is_told_with_key_value_and_what_is_allowed() -> None:
    error = ConfigError("node.id", "x", "a whole number from 0 to 9")
    assert str(error) == "property node.id = 'x': a whole number from 0 to 9"
    assert (error.key, error.value, error.allowed) == ("node.id", "x", "a whole number from 0 to 9")
    assert isinstance(error, UsageError)


def test_who_asks_the_wrong_node_hears_which_is_right() -> None:
    assert str(NotLeaderError(2, 7)) == "this node does not lead: the leader is node 2 in epoch 7"
    assert str(NotLeaderError(None, 7)) == "this node does not lead: no leader is known in epoch 7"
    assert (NotLeaderError(0, 7).leader_id, NotLeaderError(0, 7).epoch) == (0, 7)


def test_a_storage_error_names_the_file_and_the_repair() -> None:
    assert str(StorageError("a/log", "is full")) == "a/log: is full"
    error = StorageError("a/log", "is gone", repair="restore it")
    assert str(error) == "a/log: is gone; restore it"
    assert (error.path, error.problem, error.repair) == ("a/log", "is gone", "restore it")


def test_corruption_says_where_what_was_expected_and_what_was_found() -> None:
    error = CorruptionError("a/log", position=61, expected="magic 2", found="magic 9", repair="cut it")
    assert str(error) == "a/log: at position 61: expected magic 2, found magic 9; cut it"
    assert (error.position, error.expected, error.found) == (61, "magic 2", "magic 9")


def test_errors_of_other_processes_are_what_they_were_there() -> None:
    told = CorruptionError("/data/0.log", position=7, expected="a", found="b", repair="look")
    here = pickle.loads(pickle.dumps(told))  # noqa: S301 - our own
    assert (type(here), str(here), vars(here)) == (CorruptionError, str(told), vars(told))
