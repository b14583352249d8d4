"""A rule that its table does not allow dies when it is built."""

import pytest

from controller.pipeline.rules import Output, Rule, SetQueue, ToGroup, match
from controller.pipeline.tables import InvalidRule, checked

IP = {"eth_type": 0x800}


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (Rule(9, 0, (), 0), "no table 9"),
        (Rule(0, 0, match(**IP, ipv4_dst=1), 0), "does not match ipv4_dst"),
        (Rule(3, 0, match(ipv4_dst=1), 0), "needs eth_type"),
        (Rule(2, 0, match(**IP, udp_dst=4791), 0), "needs ip_proto"),
        (Rule(2, 0, match(**IP, ip_proto=6, udp_dst=4791), 0), "needs ip_proto"),
        (Rule(1, 0, (), 0, (Output(1),)), "does not allow Output"),
        (Rule(2, 0, (), 0, (SetQueue(1),)), "does not allow SetQueue"),
        (Rule(2, 0, (), 0, (ToGroup(1),), goto_table=1), "does not lead to table 1"),
        (Rule(3, 0, (), 0, meter_id=1), "does not meter"),
    ],
)
def test_wrong_rules_are_refused(rule: Rule, said: str) -> None:
    with pytest.raises(InvalidRule, match=said):
        checked(rule)


def test_match_is_canonical() -> None:
    assert match(ipv4_dst=(0x0A000105, 0xFFFFFF00), eth_type=0x800) == match(
        eth_type=(0x800, 0xFFFF), ipv4_dst=(0x0A000100, 0xFFFFFF00)
    )
    assert match(ipv4_dst=(5, 0)) == ()


@pytest.mark.parametrize("fields", [{"eth_typ": 1}, {"ip_dscp": 64}, {"ipv4_dst": (1, 1 << 32)}])
def test_match_refuses_what_does_not_fit(fields: dict) -> None:
    with pytest.raises(ValueError, match=r"unknown|fit"):
        match(**fields)
