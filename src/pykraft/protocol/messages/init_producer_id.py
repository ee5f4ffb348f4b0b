"""InitProducerId (22): an id for an idempotent producer, which numbers its batches under it.

Version 2 is flexible; 3 lets a producer name the id that it has, to get a new epoch of it (KIP-360).

Source: KIP-98; Kafka's InitProducerIdRequest and InitProducerIdResponse definitions.
"""

from pykraft.protocol.schema import INT16, INT32, INT64, STRING, Field, Message

REQUEST = Message.of(
    "InitProducerIdRequest",
    "0-5",
    "2+",
    Field("transactional_id", STRING, nullable=True),
    Field("transaction_timeout_ms", INT32),
    Field("producer_id", INT64, "3+", default=-1),
    Field("producer_epoch", INT16, "3+", default=-1),
)

RESPONSE = Message.of(
    "InitProducerIdResponse",
    "0-5",
    "2+",
    Field("throttle_time_ms", INT32, ignorable=True),
    Field("error_code", INT16),
    Field("producer_id", INT64, default=-1),
    Field("producer_epoch", INT16),
)
