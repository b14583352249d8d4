"""Whether two names mean one port: Eth1/47 and Ethernet1/47 do, Eth1/47 and swp47 may, Te1/1 and Gi1/1 do not.

It decides by spelling alone, and it never says "same" of two ports that one switch can have side by side: families
that vendors use beside each other (Gi, Te, Hu; Linux's eth0 beside SONiC's Ethernet0) stay apart. "Same" is equality
of keys, hence an equivalence. "Maybe" is a question for a person, and is not transitive.

Rules, in this order:
1. A switch's own name in front goes: "leaf1-eth3" on leaf1 is "eth3". So does a remark in brackets: "Eth1/1(Port1)".
2. A word that vendors abbreviate (see `_FAMILIES`), numbers joined by "/" or "-", and an optional lane or
   subinterface (":1", ".100") are compared as family, numbers and rest, whatever the case: e1-47, ethernet-1/47,
   Eth1/47 and Ethernet1/47 are one port. A word with one number only is an abbreviation too (Et1, Ethernet1), but for
   "eth1", which is Linux's own name.
3. Junos puts a dash behind the word (et-0/0/0); that is a family of its own, since "et" is speed there.
4. Any other name (swp1s0, ens4f0np0, a MAC address) is compared letter by letter: Linux tells swp1 from SWP1.
"""

import re
from dataclasses import dataclass
from enum import StrEnum


class PortMatch(StrEnum):
    SAME = "same"
    MAYBE = "names differ, same port?"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class PortKey:
    """`family` is empty for a name that is compared letter by letter; `rest` then holds all of it."""

    family: str
    numbers: tuple[int, ...]
    rest: str


# Sources: the vendors' command references for interface names (Cisco NX-OS and IOS-XE, Arista EOS, Dell OS10 and
# OS9, Nokia SR Linux and containerlab, H3C Comware).
_FAMILIES = {
    "ethernet": ("e", "et", "eth", "ethernet"),
    "fastethernet": ("fa", "fas", "fastethernet"),
    "gigabit": ("gi", "gig", "gige", "gigabit", "gigabitethernet"),
    "2.5gigabit": ("tw", "twogigabitethernet"),
    "5gigabit": ("fi", "fivegigabitethernet"),
    "10gigabit": ("te", "ten", "tengig", "tengige", "tengigabitethernet", "ten-gigabitethernet"),
    "25gigabit": ("twe", "twentyfivegige", "twentyfivegigabitethernet", "twenty-fivegige"),
    "40gigabit": ("fo", "for", "fortygige", "fortygigabitethernet"),
    "50gigabit": ("fiftygige", "fiftygigabitethernet"),
    "100gigabit": ("hu", "hun", "hundredgig", "hundredgige", "hundredgigabitethernet"),
    "200gigabit": ("twohundredgige", "twohundredgigabitethernet"),
    "400gigabit": ("fh", "fou", "fourhundredgige", "fourhundredgigabitethernet"),
    "800gigabit": ("eighthundredgige", "eighthundredgigabitethernet"),
    "port-channel": ("po", "port-channel", "portchannel"),
    "management": ("ma", "management"),
    "number": ("",),
    "port": ("port",),
}
_FAMILY_OF = {word: family for family, words in _FAMILIES.items() for word in words}
# Families that one switch may use beside each other: equal numbers there are two ports.
_APART = frozenset(_FAMILIES) - {"ethernet", "number", "port"}
# What is no port for a cable of the fabric is not mistaken for one.
_NO_FRONT_PORT = frozenset({"port-channel", "management"})
_NAME = re.compile(r"([a-z-]*?)([ -]?)([0-9]{1,9}(?:[/-][0-9]{1,9})*)((?::[0-9]{1,9})?(?:\.[0-9]{1,9})?)")
_REMARK = re.compile(r"\([^()]*\)$")
_LINUX = re.compile(r"(eth|swp)([0-9]{1,9})")


def key(name: str, switch: str = "") -> PortKey:
    """Names with equal keys are one port. `switch` is the name of the switch whose port it is."""
    text = name.strip()
    if switch and text.startswith(f"{switch}-"):
        text = text[len(switch) + 1 :]
    bare = _REMARK.sub("", text)
    found = _NAME.fullmatch(bare.lower()) if bare.isascii() else None
    if found is None or _LINUX.fullmatch(bare.lower()):
        return PortKey("", (), text)
    word, gap, numbers, rest = found.groups()
    family = _FAMILY_OF.get(word)
    if family is None:
        return PortKey("", (), text)
    parts = tuple(int(number) for number in re.split("[/-]", numbers))
    if gap == "-" and word == "et" and len(parts) > 1:
        family = "junos-et"
    elif gap == "-" and family not in ("ethernet", "port-channel", "port"):
        return PortKey("", (), text)
    return PortKey(family, parts, rest)


def compare(a: str, b: str, switch: str = "") -> PortMatch:
    """What two names of ports of one switch have to do with each other."""
    one, other = key(a, switch), key(b, switch)
    if one == other:
        return PortMatch.SAME
    return PortMatch.MAYBE if _may_be_same(_loosely(one), _loosely(other)) else PortMatch.DIFFERENT


def _loosely(known: PortKey) -> PortKey:
    """Linux's eth3 and swp3 get numbers, which are good for a question only."""
    found = _LINUX.fullmatch(known.rest) if not known.family else None
    return PortKey(found[1], (int(found[2]),), "") if found else known


def _may_be_same(one: PortKey, other: PortKey) -> bool:
    if not one.numbers or not other.numbers or one.rest != other.rest:
        return False
    if (
        one.family == other.family
        or {one.family, other.family} & _NO_FRONT_PORT
        or {one.family, other.family} <= _APART | {"junos-et"}
    ):
        return False
    # A name with fewer numbers may leave out the slot: Ethernet32 and fortyGigE0/32.
    fewest = min(len(one.numbers), len(other.numbers))
    return one.numbers[-fewest:] == other.numbers[-fewest:]
