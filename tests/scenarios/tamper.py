"""What the verb ``tamper`` does to a Fetch response.

    hw            another high watermark
    error         another error
    epoch         another epoch
    leader        another leader
    diverging     no batches, but an offset at which the logs part
    keep          only so many batches
    batch-epoch   another epoch of the last batch
    batch-offset  another base offset of the last batch

Only a response that is on the wire can be changed.
"""

import dataclasses

from pykraft.core import messages
from pykraft.types import Epoch, NodeId, Offset, OffsetAndEpoch


def tampered(body: messages.Request | messages.Response, field: str, value: int) -> messages.Response:
    """The Fetch response with one field changed."""
    assert isinstance(body, messages.FetchResponse)
    match field:
        case "hw":
            return dataclasses.replace(body, high_watermark=Offset(value))
        case "error":
            return dataclasses.replace(body, error=value)
        case "epoch":
            return dataclasses.replace(body, epoch=Epoch(value))
        case "leader":
            return dataclasses.replace(body, leader_id=NodeId(value))
        case "diverging":
            part = OffsetAndEpoch(Offset(value), body.epoch)
            return dataclasses.replace(body, diverging=part, batches=())
        case "keep":
            return dataclasses.replace(body, batches=body.batches[:value])
        case "batch-epoch":
            last = dataclasses.replace(body.batches[-1], epoch=Epoch(value))
        case "batch-offset":
            last = dataclasses.replace(body.batches[-1], base_offset=Offset(value))
        case _:
            raise AssertionError(field)
    return dataclasses.replace(body, batches=(*body.batches[:-1], last))
