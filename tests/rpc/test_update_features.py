"""UpdateFeatures: kraft.version goes up; any other request never reaches the core."""

import pytest

from pykraft.core.messages import ChangeVoterResponse, UpdateFeaturesRequest
from pykraft.errors import ErrorCode
from pykraft.protocol.api import ApiKey
from pykraft.protocol.schema import Body
from pykraft.rpc.context import Refusal
from tests.rpc.wires import asked, receive, replied, sent

KEY = ApiKey.UPDATE_FEATURES
VERSIONS = range(3)


def update(feature: str = "kraft.version", **more: object) -> Body:
    return {"feature": feature, "max_version_level": 1, **more}


@pytest.mark.parametrize("version", VERSIONS)
def test_requests_and_answers(version: int) -> None:
    request = UpdateFeaturesRequest(kraft_version=1, validate_only=version > 0)
    assert sent(request, version) == request
    for error, text in ((0, None), (95, "no")):
        message = ChangeVoterResponse(error=error, error_message=text)
        assert replied(KEY, version, message) == message


@pytest.mark.parametrize(
    ("version", "updates", "error", "text"),
    [
        (2, [], ErrorCode.INVALID_REQUEST, "one update is made at a time, not 0"),
        (2, [update(), update()], ErrorCode.INVALID_REQUEST, "one update is made at a time, not 2"),
        (2, [update(), update("x")], ErrorCode.INVALID_UPDATE_VERSION, "the feature x is not known here"),
        (2, [update("metadata.version")], ErrorCode.INVALID_UPDATE_VERSION, "metadata.version is not known here"),
        (2, [update("x" * 3_000)], ErrorCode.INVALID_UPDATE_VERSION, "x" * 100 + " is not known here"),
        (2, [update(upgrade_type=2)], ErrorCode.INVALID_UPDATE_VERSION, "cannot be downgraded"),
        (1, [update(upgrade_type=0)], ErrorCode.INVALID_UPDATE_VERSION, "cannot be downgraded"),
        (0, [update(allow_downgrade=True)], ErrorCode.INVALID_UPDATE_VERSION, "cannot be downgraded"),
    ],
)
def test_what_is_refused(version: int, updates: list[Body], error: ErrorCode, text: str) -> None:
    found = asked(KEY, version, {"feature_updates": updates})
    assert isinstance(found, Refusal)
    assert (found.error, found.body["error_code"]) == (error, error)
    assert text in found.body["error_message"]


@pytest.mark.parametrize("version", [0, 1])
def test_an_error_of_the_feature_counts_as_one(version: int) -> None:
    results = [{"feature": "kraft.version", "error_code": 95, "error_message": "no"}]
    assert receive(KEY, version, {"results": results}) == ChangeVoterResponse(error=95, error_message="no")
