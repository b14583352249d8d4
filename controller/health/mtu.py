"""Whether RoCE packets of full size fit through the cables between switches, which is found out before they vanish.

A frame that is larger than a port's MTU is dropped without a word, while small ones pass: pings work and jobs hang. It
judges what was read of the ports; how large RoCE packets are is the plan's to say. Sizes are bytes above Ethernet, as
Linux counts an MTU.
"""

from collections.abc import Callable, Iterable, Mapping

from controller.fabric.model import PortRef

# Around the payload of the largest RoCEv2 packet: IPv6 header, UDP, BTH, RETH, immediate data, invariant CRC
# (InfiniBand Architecture Specification, volume 1, release 1.4, chapter 9 and annex A17).
ROCE_HEADERS_BYTES = 40 + 8 + 12 + 16 + 4 + 4


def mtu_problems(
    cables: Iterable[tuple[PortRef, PortRef]],
    mtu_bytes: Mapping[PortRef, int],
    roce_mtu_bytes: int | None,
    name: Callable[[PortRef], str],
) -> tuple[str, ...]:
    """One sentence for each port, or cable, with something wrong; ports whose MTU is not known are passed over.

    `roce_mtu_bytes` is the path MTU of queue pairs, at most 4096. Without it, only cables whose ends differ are named.
    """
    found: list[str] = []
    needed = None if roce_mtu_bytes is None else roce_mtu_bytes + ROCE_HEADERS_BYTES
    for ends in sorted(set(cables)):
        known = [(end, mtu_bytes[end]) for end in ends if end in mtu_bytes]
        small = [(end, mtu) for end, mtu in known if needed is not None and mtu < needed]
        found += [
            f"{name(end)} has an MTU of {mtu} bytes: RoCE packets of {roce_mtu_bytes} need {needed} and are lost there "
            f"without a word; raise it (ovs-vsctl set Interface PORT mtu_request={needed})"
            for end, mtu in small
        ]
        if not small and len(known) == len(ends) and len({mtu for _, mtu in known}) > 1:
            each = " and ".join(f"{name(end)} of {mtu}" for end, mtu in known)
            found.append(f"the two ends of one cable have different MTUs, {each} bytes: make them equal")
    return tuple(found)
