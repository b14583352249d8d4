"""Frames on the agent link: a 4-byte big-endian length, then a protobuf message (see link.proto).

It decides what is a frame; what the bytes mean is `wire_messages`'s business.
"""

import asyncio
import struct

_LENGTH = struct.Struct("!I")
# The largest honest message is the table dump of one switch: 100,000 rules of 150 bytes are 15 MB. The agent has the
# same limit.
MAX_FRAME_BYTES = 128 * 1024 * 1024


class FrameError(Exception):
    """The peer sent something that is no frame, or stopped in the middle of one."""


def frame(payload: bytes) -> bytes:
    """`payload` with its length before it."""
    return _LENGTH.pack(len(payload)) + payload


async def read_frame(reader: asyncio.StreamReader, max_bytes: int = MAX_FRAME_BYTES) -> bytes | None:
    """The next payload; None when the peer has closed between two frames.

    Raises FrameError on a length above `max_bytes` (so that garbage cannot make us allocate) and on an end within a
    frame.
    """
    try:
        header = await reader.readexactly(_LENGTH.size)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise FrameError(f"closed after {len(error.partial)} of {_LENGTH.size} length bytes") from error
        return None
    (length,) = _LENGTH.unpack(header)
    if length > max_bytes:
        raise FrameError(f"a frame of {length} bytes is announced, {max_bytes} are allowed")
    try:
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError as error:
        raise FrameError(f"closed after {len(error.partial)} of {length} bytes") from error
