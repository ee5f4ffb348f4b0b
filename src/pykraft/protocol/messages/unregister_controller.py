"""UnregisterController (94): a Kafka controller forgets the registration of one that is gone.

Only Kafka's controllers register, so our nodes ask this and never answer it.

Source: KIP-1312; Kafka's UnregisterControllerRequest and UnregisterControllerResponse definitions.
"""

from pykraft.protocol.messages.common import VOTER_CHANGE_ANSWER
from pykraft.protocol.schema import INT32, Field, Message

REQUEST = Message.of("UnregisterControllerRequest", "0", "0+", Field("controller_id", INT32))

RESPONSE = Message.of("UnregisterControllerResponse", "0", "0+", *VOTER_CHANGE_ANSWER)
