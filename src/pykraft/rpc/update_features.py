"""UpdateFeatures between core and wire: a quorum's only feature is kraft.version, and its level only goes up.

A request for any other feature does not reach the core. So ``kafka-features upgrade --release-version``, which names
all features of a release, changes nothing. Below version 2 the answer also has results of single features, which repeat
the result above them.

Source: KIP-584, KIP-778, KAFKA-16538; Kafka's ``QuorumController.updateFeatures``.
"""

from typing import Final

from pykraft.core.messages import ChangeVoterResponse, UpdateFeaturesRequest
from pykraft.errors import ErrorCode
from pykraft.protocol.schema import Body
from pykraft.rpc.api_versions import KRAFT_VERSION_FEATURE
from pykraft.rpc.context import Refusal, RpcContext

TIMEOUT_MS: Final = 60_000
UPGRADE: Final = 1
"""The type of an update that only goes up; 2 and 3 are safe and unsafe downgrades."""
RESULTS_VERSION_MAX: Final = 1


def request_to_wire(message: UpdateFeaturesRequest, _version: int, _context: RpcContext) -> Body:
    """The body of a request; version 0 cannot express ``validate_only``."""
    update = {"feature": KRAFT_VERSION_FEATURE, "max_version_level": message.kraft_version}
    return {"timeout_ms": TIMEOUT_MS, "feature_updates": [update], "validate_only": message.validate_only}


def request_from_wire(body: Body, _context: RpcContext) -> UpdateFeaturesRequest | Refusal:
    """A request for the core; INVALID_REQUEST unless it has one update, INVALID_UPDATE_VERSION for any other change."""
    updates = body["feature_updates"]
    strange = next((update["feature"] for update in updates if update["feature"] != KRAFT_VERSION_FEATURE), None)
    if strange is not None:
        text = f"the feature {strange[:100]} is not known here, only {KRAFT_VERSION_FEATURE} is"
        return _refuse(ErrorCode.INVALID_UPDATE_VERSION, text)
    if len(updates) != 1:
        return _refuse(ErrorCode.INVALID_REQUEST, f"one update is made at a time, not {len(updates)}")
    (update,) = updates
    if update.get("upgrade_type", UPGRADE) != UPGRADE or update.get("allow_downgrade", False):
        text = f"{KRAFT_VERSION_FEATURE} cannot be downgraded"
        return _refuse(ErrorCode.INVALID_UPDATE_VERSION, text)
    return UpdateFeaturesRequest(
        kraft_version=update["max_version_level"], validate_only=body.get("validate_only", False)
    )


def response_to_wire(message: ChangeVoterResponse, version: int, _context: RpcContext) -> Body:
    body: Body = {"error_code": message.error, "error_message": message.error_message}
    # Later versions have no results of single features.
    if version <= RESULTS_VERSION_MAX and not message.error:
        body["results"] = [{"feature": KRAFT_VERSION_FEATURE}]
    return body


def response_from_wire(body: Body, _context: RpcContext) -> ChangeVoterResponse:
    """An answer for the requester: the first error in the answer or in its features."""
    answers = (body, *body.get("results", ()))
    worst = next((answer for answer in answers if answer["error_code"]), body)
    return ChangeVoterResponse(error=worst["error_code"], error_message=worst["error_message"])


def _refuse(error: ErrorCode, text: str) -> Refusal:
    return Refusal(error, {"error_code": error, "error_message": text})
