"""Error messages of real switches belong to what they answer by transaction id alone."""

import os
from pathlib import Path

import pytest
from heddle.southbound.v1 import link_pb2 as pb
from ryu.ofproto import ofproto_parser, ofproto_protocol
from ryu.ofproto import ofproto_v1_3 as ofp

from apps.error_names import error_name
from apps.session import SwitchSession

PROTOCOL = ofproto_protocol.ProtocolDesc(ofp.OFP_VERSION)
# The shared inputs lie beside the repository or where HEDDLE_INPUTS says.
_INPUTS = Path(os.environ.get("HEDDLE_INPUTS") or Path(__file__).parents[2].parent / "shared" / "inputs")
CAPTURES = _INPUTS / "openflow"

# Made after the captures' form: an error's head, its type and code, and the first 64 bytes of a longer flow-mod.
_QUOTED = bytes.fromhex("040e0070") + bytes.fromhex("00c0ffee") + bytes(56)
_OWN = [
    ("0005 0001", "OFPET_FLOW_MOD_FAILED/OFPFMFC_TABLE_FULL"),
    ("0006 0000", "OFPET_GROUP_MOD_FAILED/OFPGMFC_GROUP_EXISTS"),
    ("000c 0002", "OFPET_METER_MOD_FAILED/OFPMMFC_INVALID_METER"),
]


def _refusals(data: bytes) -> list[str]:
    """What a batch whose only modification had the error's transaction id is told."""
    error = ofproto_parser.msg(PROTOCOL, *ofproto_parser.header(data), data)
    xids = iter([error.xid, error.xid ^ 1])
    session = SwitchSession(PROTOCOL, 1, "s", xids.__next__)
    session.submit(pb.Batch(dpid=1, session_id="s", batch_id=1, modifications=[pb.Modification(add_rule=pb.Rule())]))
    session.next_bytes()
    assert session.on_error(error.xid, error.type, error.code) == []
    (report,) = session.on_reply(error.xid ^ 1)
    assert [entry.index for entry in report.batch_result.errors] == [0]
    return [entry.name for entry in report.batch_result.errors]


@pytest.mark.parametrize(("kind", "name"), _OWN)
def test_cut_off_requests_are_no_obstacle(kind: str, name: str) -> None:
    data = bytes.fromhex("0401004c00c0ffee") + bytes.fromhex(kind) + _QUOTED
    assert _refusals(data) == [name]


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="the captures are not on this machine")
@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("faucet-2682.bin", "OFPET_GROUP_MOD_FAILED/OFPGMFC_GROUP_EXISTS"),
        ("faucet-4448.bin", "OFPET_FLOW_MOD_FAILED/OFPFMFC_TABLE_FULL"),
        ("xdpd-76.bin", "OFPET_FLOW_MOD_FAILED/OFPFMFC_TABLE_FULL"),
    ],
)
def test_captured_errors(file: str, name: str) -> None:
    assert _refusals((CAPTURES / file).read_bytes()) == [name]


def test_numbers_without_a_name_are_shown() -> None:
    assert error_name(5, 99) == "OFPET_FLOW_MOD_FAILED/code 99"
    assert error_name(1234, 5) == "error type 1234/code 5"
    assert error_name(0xFFFF, 2301, 0x4F4E4600) == "OFPET_EXPERIMENTER/0x4f4e4600:2301"
