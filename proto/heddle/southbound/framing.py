"""Frames on the southbound link: each message is preceded by its length, 4 bytes, big-endian (see v1/link.proto).

Written by hand beside the generated stubs, because both ends speak it: the agent and the controller. It decides what is
a frame; what is in it is a protobuf message's business.
"""

import struct

_LENGTH = struct.Struct("!I")

# The tables of a large switch (100,000 rules) take about 20 MB; more than this is a peer that speaks something else.
MAX_FRAME_BYTES = 128 * 1024 * 1024


class FrameError(ValueError):
    """The peer does not speak the southbound protocol."""


def frame(payload: bytes) -> bytes:
    """One message as it goes over the wire. Raises FrameError when it is too long for any peer to accept."""
    if len(payload) > MAX_FRAME_BYTES:
        raise FrameError(f"a message of {len(payload)} bytes is longer than the {MAX_FRAME_BYTES} that a peer accepts")
    return _LENGTH.pack(len(payload)) + payload


class FrameReader:
    """Cuts a byte stream into payloads, however the stream was chopped up on its way."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    @property
    def pending_bytes(self) -> int:
        """How much of an unfinished frame has come; more than 0 at the end of a stream means that it was cut off."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """Adds what was received and returns the payloads that are complete now. Raises FrameError."""
        self._buffer += data
        payloads = []
        start = 0
        while len(self._buffer) - start >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer, start)
            if length > MAX_FRAME_BYTES:
                raise FrameError(f"a frame of {length} bytes was announced: the peer does not speak this protocol")
            end = start + _LENGTH.size + length
            if len(self._buffer) < end:
                break
            payloads.append(bytes(self._buffer[start + _LENGTH.size : end]))
            start = end
        del self._buffer[:start]
        return payloads
