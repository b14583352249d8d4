"""The marks of packets on a detour: source MAC addresses that name the leaf and count the bounces.

Every router rewrites the source MAC address, no host looks at it (ARP and neighbour discovery carry their own), and it
is there in every frame, so that a mark costs no byte and nothing has to be taken off. Who marks what is decided in
`detour`.
"""

from controller.pipeline.rules import SetField

# One more than any single failure needs, so that most pairs of failures heal as well.
MOST_BOUNCES = 2
# Leaves are numbered in so many bits.
LEAF_BITS = 20

# 06:48:44 is unicast and locally administered ("HD"). Of the lower 24 bits one says that the packet bounced, one that a
# core has turned it, two count, and the others are the number of the leaf. Nobody sends up what is on its last hop.
LAST_HOP = 0x064844_000000
_OURS = 0xFFFFFF_000000
_BOUNCED, _TURNED, _COUNT = 1 << 23, 1 << 22, 3 << LEAF_BITS
# (value, mask) of an eth_src.
Marked = tuple[int, int]
BOUNCED: Marked = (LAST_HOP | _BOUNCED, _OURS | _BOUNCED)
TURNED: Marked = (LAST_HOP | _BOUNCED | _TURNED, _OURS | _BOUNCED | _TURNED)


def _mark(bounces: int, number: int) -> int:
    return LAST_HOP | _BOUNCED | bounces << LEAF_BITS | number


def bounced_for(number: int) -> Marked:
    """What bounced on its way to the leaf of that number, however often."""
    return _mark(0, number), BOUNCED[1] | (1 << LEAF_BITS) - 1


def bounced_often(bounces: int) -> Marked:
    """What bounced so often, whichever leaf it is for."""
    return BOUNCED[0] | bounces << LEAF_BITS, BOUNCED[1] | _COUNT


def bounced(bounces: int, number: int) -> Marked:
    """What bounced so often on its way to the leaf of that number."""
    value, mask = bounced_for(number)
    return value | bounces << LEAF_BITS, mask | _COUNT


def set_bounced(bounces: int, number: int, *, turned: bool = False) -> SetField:
    return SetField("eth_src", _mark(bounces, number) | (_TURNED if turned else 0))


SET_LAST_HOP = SetField("eth_src", LAST_HOP)


def mark_words(mac: int, mask: int | None = None) -> str | None:
    """ "on a detour, bounced once", "on its last hop after a detour"; None for what is no mark. With a mask, only as
    much as that says."""
    if mac == LAST_HOP and mask is None:
        return "on its last hop after a detour"
    seen = -1 if mask is None else mask
    if mac & seen & BOUNCED[1] != BOUNCED[0]:
        return None
    bounces = (mac & _COUNT) >> LEAF_BITS
    often = {1: ", bounced once", 2: ", bounced twice"}.get(bounces, f", bounced {bounces} times")
    turned = ", turned by a core" if mac & seen & _TURNED else ""
    return f"on a detour{often if seen & _COUNT == _COUNT else ''}{turned}"


def detour_words(came: int, goes: int) -> str | None:
    """What a switch does with a packet that came in and leaves with these source MAC addresses; None: nothing that has
    to do with a detour."""
    before, after = mark_words(came), mark_words(goes)
    if after is None or (before is not None and goes == LAST_HOP == came):
        return None
    if goes == LAST_HOP:
        return "the packet is on a detour and goes down on its last hop"
    if came == goes:
        return "the packet is on a detour and goes on by another way than the one it came from"
    return f"no way down is live: the packet goes back where it came from, {after}"
