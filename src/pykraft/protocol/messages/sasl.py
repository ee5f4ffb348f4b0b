"""Messages by which a connection is authenticated, before any other request but ApiVersions.

Source: KIP-43, KIP-152, KIP-368; Kafka's definitions of these messages.
"""

from pykraft.protocol.schema import BYTES, INT16, INT64, STRING, Array, Field, Message

MECHANISMS_MAX = 100

SASL_HANDSHAKE_REQUEST = Message.of("SaslHandshakeRequest", "0-1", "2+", Field("mechanism", STRING))
"""SaslHandshake (17): the mechanism that the client wants. After version 0 the messages of the mechanism follow as bare
frames, after version 1 within SaslAuthenticate.
"""

SASL_HANDSHAKE_RESPONSE = Message.of(
    "SaslHandshakeResponse", "0-1", "2+", Field("error_code", INT16), Field("mechanisms", Array(STRING, MECHANISMS_MAX))
)

SASL_AUTHENTICATE_REQUEST = Message.of("SaslAuthenticateRequest", "0-2", "2+", Field("auth_bytes", BYTES))
"""SaslAuthenticate (36): one message of the mechanism. From version 1 on the last answer says after how many
milliseconds the client must authenticate again; 0: never.
"""

SASL_AUTHENTICATE_RESPONSE = Message.of(
    "SaslAuthenticateResponse",
    "0-2",
    "2+",
    Field("error_code", INT16),
    Field("error_message", STRING, nullable=True),
    Field("auth_bytes", BYTES),
    Field("session_lifetime_ms", INT64, "1+", ignorable=True),
)
