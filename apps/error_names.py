"""Names of OpenFlow 1.3 errors, as the specification spells them."""

from ryu.ofproto import ofproto_v1_3 as ofp

# Type and code of a modification that was not sent because OpenFlow 1.3 has no spelling for it.
NOT_SENT = (0xFFFE, 0)


def error_name(error_type: int, code: int, experimenter: int = 0) -> str:
    """`OFPET_FLOW_MOD_FAILED/OFPFMFC_TABLE_FULL`; numbers where the specification has no name."""
    if error_type == ofp.OFPET_EXPERIMENTER:
        return f"OFPET_EXPERIMENTER/{experimenter:#x}:{code}"
    type_name, code_name = (
        _name(ofp.ofp_error_type_to_str(error_type)),
        _name(ofp.ofp_error_code_to_str(error_type, code)),
    )
    return f"{type_name or f'error type {error_type}'}/{code_name or f'code {code}'}"


def _name(ryu_spelling: str) -> str:
    """Ryu writes `OFPFMFC_TABLE_FULL(1)`, and `Unknown(7)` when it has no name."""
    name = ryu_spelling.partition("(")[0]
    return "" if name == "Unknown" else name
