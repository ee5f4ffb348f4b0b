"""Cluster and directory ids on a command line are taken as they are, or rejected with the option's name."""

from __future__ import annotations

import pytest

from pykraft.cli.identity import parse_cluster_id, parse_directory_id
from pykraft.errors import UsageError
from pykraft.types import uuid_text


@pytest.mark.parametrize("text", ["MkU3OEVBNTcwNTJENDM2Qg", "a", "my.cluster_1-2", "x" * 255])
def test_a_cluster_id_is_letters_digits_and_three_signs(text: str) -> None:
    assert parse_cluster_id(text) == text


@pytest.mark.parametrize("text", ["", "x" * 256, "a b", "a/b", "\u00fc", "a\n"])
def test_any_other_cluster_id_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"--cluster-id .*: give 1 to 255 letters"):
        parse_cluster_id(text)


@pytest.mark.conformance("H17", "H18")
@pytest.mark.parametrize("text", ["b8tRS7h4TJ2Vt43Dp85v2A", "4-e97nI7eHPYKfEDtW8rtQ", "-AAAAAAAAAAAAAAAAAAAAA"])
def test_a_directory_id_may_hold_and_begin_with_a_hyphen(text: str) -> None:
    assert uuid_text(parse_directory_id(text)) == text


@pytest.mark.parametrize(
    "text", ["", "short", "b8tRS7h4TJ2Vt43Dp85v2A=", "AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ"]
)
def test_any_other_directory_id_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--replica-directory-id"):
        parse_directory_id(text)
