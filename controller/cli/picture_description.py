"""What a picture of a fabric shows, in plain values: switches, links with loads, hosts, a title."""

from dataclasses import dataclass
from enum import StrEnum


class LinkState(StrEnum):
    UP = "up"
    ONE_WAY = "one-way"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class PictureSwitch:
    """`role` is "spine", "leaf" or anything else, which is drawn in a row of its own on top; `note` stands below the
    name."""

    name: str
    role: str
    connected: bool = True
    note: str = ""


@dataclass(frozen=True, slots=True)
class PictureLink:
    """A cable between two switches, by name. Loads are fractions of the link's rate, None where nothing is known.

    A label is what is written at the port that sends; left empty, it is the load in percent.
    """

    a: str
    b: str
    a_to_b: float | None = None
    b_to_a: float | None = None
    a_to_b_label: str = ""
    b_to_a_label: str = ""
    state: LinkState = LinkState.UP
    # In a picture of cabling: what the verdict says of this cable, see `picture_cabling`.
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class PictureHost:
    """`verdict` as of links."""

    name: str
    switch: str
    verdict: str = ""


@dataclass(frozen=True, slots=True)
class FabricPicture:
    """What is to be drawn. `subtitle` empty: the fullest link is named there."""

    title: str
    switches: tuple[PictureSwitch, ...]
    links: tuple[PictureLink, ...]
    hosts: tuple[PictureHost, ...] = ()
    subtitle: str = ""
    # Show how cables were found, rather than what they carry.
    cabling: bool = False
