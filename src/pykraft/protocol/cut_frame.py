"""The beginning of a request that is too large, in a module of its own: mypyc has no native class of bytes.

Source: ours (ADR 201).
"""


class CutFrame(bytes):
    """The first bytes of a frame that was too large; the rest was thrown away."""

    __slots__ = ()
