"""Match fields: southbound `MatchField` <-> Ryu's (name, value) pairs. Bytes on one side, Ryu's own types on the other.

Masks that cover the whole field are dropped and bits outside a mask are cleared, so that equal fields are spelt equal.
"""

from collections.abc import Iterable
from typing import Any

from heddle.southbound.v1 import link_pb2
from ryu.ofproto import ofproto_v1_3 as ofp
from ryu.ofproto import ofproto_v1_3_parser as parser

# Fields narrower than their bytes: the mask that covers them wholly (OpenFlow 1.3.5, table 12).
_WHOLE = {
    "vlan_vid": b"\x1f\xff",
    "ip_dscp": b"\x3f",
    "ip_ecn": b"\x03",
    "vlan_pcp": b"\x07",
    "mpls_label": b"\x0f\xff\xff",
}


class CodecError(ValueError):
    """A southbound message asks for something that OpenFlow 1.3 cannot say; the text says what."""


def to_ryu_match(fields: Iterable[link_pb2.MatchField]) -> Any:
    """An OFPMatch. Raises CodecError on an unknown field or a value of the wrong width."""
    numbered = sorted((_to_ryu_field(field) for field in fields), key=lambda entry: _order(entry[0]))
    # The ordered form skips Ryu's normalisation, which is done here and costs it three conversions per field.
    return parser.OFPMatch(_ordered_fields=[(name, value) for _, name, value in numbered])


def to_ryu_set_field(field: link_pb2.MatchField) -> Any:
    """An OFPActionSetField. Raises CodecError."""
    if field.mask:
        raise CodecError(f"set_field {field.name} has a mask, which OpenFlow 1.3 does not allow")
    _, name, value = _to_ryu_field(field)
    return parser.OFPActionSetField(**{name: value})


def from_ryu_field(name: str, value: Any) -> link_pb2.MatchField | None:
    """The southbound field, or None when its mask leaves nothing to compare."""
    _, wire_value, mask = ofp.oxm_from_user(name, value)
    if mask is None or mask == _whole(name, len(wire_value)):
        return link_pb2.MatchField(name=name, value=wire_value)
    if not any(mask):
        return None
    return link_pb2.MatchField(name=name, value=_and(wire_value, mask), mask=mask)


def from_ryu_match(match: Any) -> list[link_pb2.MatchField]:
    """All fields of an OFPMatch, sorted by name."""
    fields = (from_ryu_field(name, value) for name, value in match.items())
    return sorted((field for field in fields if field is not None), key=lambda field: str(field.name))


def _to_ryu_field(field: link_pb2.MatchField) -> tuple[Any, str, Any]:
    try:
        number, kind = ofp.oxm_get_field_info_by_name(field.name)
    except (KeyError, ValueError):
        raise CodecError(f"OpenFlow 1.3 has no field {field.name!r}") from None
    width = getattr(kind, "size", len(field.value))
    if len(field.value) != width or len(field.mask) not in (0, width):
        raise CodecError(
            f"{field.name} is {width} bytes wide; the value has {len(field.value)}, the mask {len(field.mask)}"
        )
    mask = bytes(field.mask) or None
    value = bytes(field.value) if mask is None else _and(field.value, mask)
    name, user_value = ofp.oxm_to_user(number, value, mask)
    return number, name, user_value


def _order(number: Any) -> int:
    """Ryu's own order: by number, so that eth_type comes before the fields that depend on it."""
    return int(number[0] if isinstance(number, tuple) else number)


def _whole(name: str, width: int) -> bytes:
    return _WHOLE.get(name, b"\xff" * width)


def _and(value: bytes, mask: bytes) -> bytes:
    return bytes(a & b for a, b in zip(value, mask, strict=True))
