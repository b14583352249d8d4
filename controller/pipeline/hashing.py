"""The hashes by which modelled switches spread flows: the same on every machine and in every run.

Which header fields count follows Open vSwitch (`enum nx_hash_fields` of nicira-ext.h); the hash itself is our own, so
a model and a real switch agree on the set of members a flow may take, not on the member.
"""

from collections.abc import Mapping

# NX_HASH_FIELDS_*: the numbers on the wire.
HASH_ETH_SRC = 0
HASH_SYMMETRIC_L4 = 1
HASH_SYMMETRIC_L3L4 = 2
HASH_SYMMETRIC_L3L4_UDP = 3
HASH_NW_SRC = 4
HASH_NW_DST = 5
HASH_SYMMETRIC_L3 = 6

_64 = (1 << 64) - 1


def stable_hash(*values: int) -> int:
    """64 bits that depend on every bit of every value (the finaliser of SplitMix64, chained)."""
    state = 0x9E3779B97F4A7C15
    for value in values:
        while True:
            state = (state ^ (value & _64)) * 0xBF58476D1CE4E5B9 & _64
            state = (state ^ (state >> 27)) * 0x94D049BB133111EB & _64
            state ^= state >> 31
            value >>= 64
            if value <= 0:
                break
    return state


def flow_hash(headers: Mapping[str, int], fields: int, basis: int) -> int:
    """Hashes the fields that the NX_HASH_FIELDS_* number `fields` names. Raises ValueError on an unknown number."""
    return stable_hash(basis, *_hashed(headers, fields))


def _hashed(headers: Mapping[str, int], fields: int) -> tuple[int, ...]:
    if fields == HASH_ETH_SRC:
        return (headers["eth_src"],)
    source, destination = _addresses(headers)
    if fields == HASH_NW_SRC:
        return (source,)
    if fields == HASH_NW_DST:
        return (destination,)
    # Symmetric: both directions of a flow hash alike.
    addresses = (min(source, destination), max(source, destination))
    if fields == HASH_SYMMETRIC_L3:
        return addresses
    protocol = headers.get("ip_proto", 0)
    if fields == HASH_SYMMETRIC_L3L4:
        return (*addresses, protocol, *_ports(headers, "tcp"))
    if fields == HASH_SYMMETRIC_L3L4_UDP:
        return (*addresses, protocol, *_ports(headers, "tcp"), *_ports(headers, "udp"))
    if fields == HASH_SYMMETRIC_L4:
        macs = (headers["eth_src"], headers["eth_dst"])
        link = (min(macs), max(macs), headers["eth_type"], headers.get("vlan_vid", 0))
        return (*link, *addresses, protocol, *_ports(headers, "tcp"))
    raise ValueError(f"NX_HASH_FIELDS number {fields} is unknown; Open vSwitch has 0 to 6")


def _addresses(headers: Mapping[str, int]) -> tuple[int, int]:
    if "ipv4_src" in headers:
        return headers["ipv4_src"], headers["ipv4_dst"]
    return headers.get("ipv6_src", 0), headers.get("ipv6_dst", 0)


def _ports(headers: Mapping[str, int], protocol: str) -> tuple[int, int]:
    source, destination = headers.get(f"{protocol}_src", 0), headers.get(f"{protocol}_dst", 0)
    return min(source, destination), max(source, destination)
