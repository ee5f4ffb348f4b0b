"""A frame in which a bit flipped on its way.

A module of its own, since no compiled class has ``bytes`` as its base (ADR 116).
"""


class FlippedFrame(bytes):
    """What its sender said is not what arrives. Only the simulator knows; replicas get it as any other frame."""
