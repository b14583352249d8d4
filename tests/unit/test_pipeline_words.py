"""Rules in words: what a person reads in a trace and in a difference."""

import pytest

from controller.pipeline.cookies import Kind, cookie
from controller.pipeline.marks import BOUNCED, LAST_HOP, TURNED, bounced, detour_words, set_bounced
from controller.pipeline.rules import (
    OFPP_CONTROLLER,
    OFPP_IN_PORT,
    Action,
    Bundle,
    DecrementTtl,
    Match,
    Output,
    SetField,
    SetQueue,
    SetTtl,
    ToGroup,
    match,
)
from controller.pipeline.words import action_words, cookie_kind, field_text, match_words, packet_words

A, B = 0x0A000101, 0x0A000201


@pytest.mark.parametrize(
    ("matched", "words"),
    [
        ((), "every packet"),
        (match(eth_type=0x88CC), "LLDP"),
        (match(eth_type=0x0806, eth_dst=(1 << 48) - 1), "ARP to all"),
        (match(eth_type=0x0806, arp_tpa=B), "ARP for 10.0.2.1"),
        (match(eth_type=0x0800, ipv4_dst=B), "IPv4 to 10.0.2.1"),
        (match(eth_type=0x0800, ipv4_dst=(B, 0xFFFFFF00)), "IPv4 to 10.0.2.0/24"),
        (match(eth_type=0x0800, ipv4_dst=(B, 0xFFFF00FF)), "IPv4 to 10.0.0.1/255.255.0.255"),
        (match(eth_type=0x86DD, ip_dscp=26), "IPv6, DSCP 26"),
        (match(eth_type=0x0800, ip_proto=17, udp_dst=4791, udp_src=50000), "RoCEv2 over IPv4, UDP source port 50000"),
        (
            match(eth_type=0x0800, ip_proto=17, udp_dst=4791, ipv4_src=A, ipv4_dst=B),
            "RoCEv2 over IPv4 from 10.0.1.1 to 10.0.2.1",
        ),
        (match(eth_type=0x0800, ip_proto=17, udp_dst=53), "UDP over IPv4, UDP port 53"),
        (match(eth_type=0x0800, ip_proto=89), "protocol 89 over IPv4"),
        (match(in_port=3), "packets, in by port 3"),
        (match(in_port=3, eth_src=BOUNCED), "packets on a detour, in by port 3"),
        (match(eth_src=bounced(2, 7)), "packets on a detour, bounced twice"),
        (match(eth_src=TURNED), "packets on a detour, turned by a core"),
        (match(eth_src=0x020000000001), "packets from MAC 02:00:00:00:00:01"),
        (match(eth_type=0x88F7, arp_op=1), "Ethernet type 0x88f7, arp_op=1"),
        (match(eth_dst=(0x0180C2000000, 0xFFFFFFFFFFF0)), "packets to MAC 01:80:c2:00:00:00/ff:ff:ff:ff:ff:f0"),
    ],
)
def test_matches(matched: Match, words: str) -> None:
    assert match_words(matched) == words


@pytest.mark.parametrize(
    ("action", "words"),
    [
        (Output(3), "to port 3 (spine3)"),
        (Output(OFPP_CONTROLLER), "to the controller"),
        (ToGroup(0x10000001), "group 0x10000001"),
        (SetQueue(2), "queue 2"),
        (SetField("ip_dscp", 26), "DSCP 26"),
        (SetField("eth_dst", 0x020000000001), "set eth_dst to 02:00:00:00:00:01"),
        (DecrementTtl(), "decrement TTL"),
        (SetTtl(3), "TTL 3"),
        (Output(OFPP_IN_PORT), "back where it came in"),
        (set_bounced(1, 7), "mark as on a detour, bounced once"),
        (set_bounced(2, 7, turned=True), "mark as on a detour, bounced twice, turned by a core"),
        (SetField("eth_src", LAST_HOP), "mark as on its last hop after a detour"),
        (Bundle((1, 2, 2), 7), "hash over ports 1, 2"),
    ],
)
def test_actions(action: Action, words: str) -> None:
    assert action_words(action, lambda port_no: f"port {port_no} (spine{port_no})") == words


def test_a_detour_in_words() -> None:
    host, once, twice = 0x020000000001, set_bounced(1, 7).value, set_bounced(2, 7).value
    assert detour_words(host, host) is None
    assert detour_words(LAST_HOP, LAST_HOP) is None
    assert detour_words(host, once) == (
        "no way down is live: the packet goes back where it came from, on a detour, bounced once"
    )
    assert "bounced twice" in (detour_words(once, twice) or "")
    assert "goes on by another way" in (detour_words(once, once) or "")
    assert "last hop" in (detour_words(once, LAST_HOP) or "")


def test_a_cookie_says_what_a_rule_is_for() -> None:
    assert cookie_kind(cookie(Kind.STEER, "job")) == "steer"
    assert cookie_kind(0xBEEF) == "foreign"
    assert cookie_kind(0x4844 << 48 | 0xEE << 40) == "kind 238"


def test_fields_keep_their_names_for_machines() -> None:
    (port, source) = match(udp_src=9, ipv4_src=(A, 0xFF000000))[::-1]
    assert (field_text(source), field_text(port)) == ("ipv4_src=10.0.0.0/8", "udp_src=9")


def test_a_packet_says_what_it_would_be_matched_by() -> None:
    headers = {"eth_type": 0x0800, "ip_proto": 17, "udp_dst": 4791, "udp_src": 9, "ipv4_src": A, "ipv4_dst": B}
    assert packet_words({**headers, "ip_dscp": 0, "ip_ttl": 64}) == (
        "RoCEv2 over IPv4 from 10.0.1.1 to 10.0.2.1, UDP source port 9, DSCP 0"
    )
