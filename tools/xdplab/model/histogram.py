# SPDX-License-Identifier: Apache-2.0
"""A histogram in a record: its layout, and what is checked before anything is decoded into memory.

Records come from elsewhere too: one with another layout, or one that unpacks to gigabytes, is refused when it is read.
Format: HdrHistogram V2, "Encoding format" in the specification of the HdrHistogram project (big-endian headers).
"""

import base64
import struct
import zlib
from typing import Annotated, Any

from pydantic import AfterValidator

#: Layout of every histogram that xdplab writes: 1 ns to 10 s, three significant digits.
LOWEST_NS, HIGHEST_NS, DIGITS = 1, 10_000_000_000, 3
#: That layout: the lower bucket of 2048 counters, and the upper half of each of 23 that halve in resolution.
HALF_MAGNITUDE = 10
COUNTERS = 25 << HALF_MAGNITUDE
#: Cookie and length of what is packed; cookie, length, offset, digits, lowest, highest and ratio of what is unpacked.
_OUTER, _INNER = struct.Struct(">ii"), struct.Struct(">iiiiqqd")
_COUNTER_BYTES = 9  # a ZigZag LEB128 number of 64 bits at its longest
_LARGEST_BYTES = _INNER.size + COUNTERS * _COUNTER_BYTES


def checked_histogram(text: str) -> str:
    """The text, when its sizes and its layout are those that xdplab writes.

    Raises:
        ValueError: in one line, what is wrong with it.
    """
    if len(text) > 2 * _LARGEST_BYTES:  # base64 adds a third, and zlib next to nothing to what cannot be packed
        raise ValueError(f"histogram: {len(text)} characters are more than one of this layout can have")
    try:
        packed = base64.b64decode(text, validate=True)
        _, length = _OUTER.unpack_from(packed)
        if length != len(packed) - _OUTER.size:
            raise ValueError("cut off")
        data = zlib.decompressobj().decompress(packed[_OUTER.size :], _LARGEST_BYTES + 1)
        _, length, _, digits, lowest, highest, _ = _INNER.unpack_from(data)
    except (ValueError, struct.error, zlib.error) as exc:
        raise ValueError(f"histogram: cannot be read: {exc}") from None
    if len(data) > _LARGEST_BYTES:
        raise ValueError(f"histogram: unpacks to more than the {_LARGEST_BYTES} bytes that one of this layout can have")
    if length != len(data) - _INNER.size:
        raise ValueError("histogram: cannot be read: its counters are cut off")
    if (lowest, highest, digits) != (LOWEST_NS, HIGHEST_NS, DIGITS):
        found = f"{lowest} to {highest} ns with {digits} digits"
        raise ValueError(f"histogram: {found} instead of {LOWEST_NS} to {HIGHEST_NS} with {DIGITS}; not of this xdplab")
    return text


#: A base64 HdrHistogram V2 in nanoseconds (1 ns to 10 s, 3 digits).
Histogram = Annotated[str, AfterValidator(checked_histogram)]


def histogram_of(*texts: str) -> Any:
    """An HdrHistogram of that layout, with all that these hold."""
    from hdrh.histogram import HdrHistogram

    found = HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)
    for text in texts:
        found.add(HdrHistogram.decode(text))
    return found
