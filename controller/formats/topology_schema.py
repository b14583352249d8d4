"""The form of a topology file: which keys exist, and what each may hold by itself.

It decides types and single values. What needs two entries to be seen as wrong (a port used twice, an unknown switch)
is decided in `topology_checks`; what is left out is filled in by `topology_fill`. The JSON Schema for editors is
generated from here: `python -m controller.formats.topology_schema > topologies/topology.schema.json`.
Descriptions and examples are written once and serve three readers: the schema, the error messages and the docs.
"""

import ipaddress
import json
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from controller.formats.rates import MAX_RATE_BPS, RATE_PATTERN, parse_rate

# Open vSwitch refuses OpenFlow port numbers from 0xff00 on.
MAX_PORT = 0xFEFF
MAX_SWITCHES = 4096
MAX_LINKS = 65536
MAX_HOSTS = 65536

_NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9._-]*$"
_END_PATTERN = r"^[A-Za-z][A-Za-z0-9._-]*(:[1-9][0-9]{0,4})?$"
_MAC_PATTERN = r"^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$"
_IPV4_PATTERN = r"^[0-9.]{7,15}/[0-9]{1,2}$"


def _problem(kind: str, text: str) -> PydanticCustomError:
    # pydantic takes braces as placeholders.
    return PydanticCustomError(kind, "{text}", {"text": text})


def _rate(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return parse_rate(value)
    except ValueError as error:
        raise _problem("rate", str(error)) from None


def _end(value: str) -> str:
    port = value.partition(":")[2]
    if port and int(port) > MAX_PORT:
        raise _problem("port", f'port {port} in "{value}" is above {MAX_PORT}')
    return value


def _mac(value: str) -> str:
    octets = bytes.fromhex(value.replace(":", ""))
    if octets[0] & 1:
        raise _problem("mac", f"{value} is a group address")
    if not any(octets):
        raise _problem("mac", f"{value} is no address")
    return value.lower()


def _ipv4(value: str) -> str:
    try:
        interface = ipaddress.IPv4Interface(value)
    except ValueError:
        raise _problem("ipv4", f'"{value}" is not an IPv4 address with a prefix length') from None
    address, network = interface.ip, interface.network
    if address.is_multicast or address.is_loopback or address.is_reserved or int(address) >> 24 == 0:
        raise _problem("ipv4", f"{value} is not an address for a host")
    if network.prefixlen < 31 and address in (network.network_address, network.broadcast_address):
        raise _problem("ipv4", f"{value} is the network's own or its broadcast address")
    return str(interface)


Rate = Annotated[
    int,
    BeforeValidator(_rate),
    Field(ge=1, le=MAX_RATE_BPS),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1, "maximum": MAX_RATE_BPS},
                {"type": "string", "pattern": RATE_PATTERN},
            ]
        }
    ),
]
Name = Annotated[str, Field(pattern=_NAME_PATTERN, max_length=64)]
# As long as a full domain name may be.
Alias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]*$", max_length=253)]
End = Annotated[str, Field(pattern=_END_PATTERN, max_length=80), AfterValidator(_end)]

# A server with more network cards than this is not built.
MAX_NICS = 16
_RATE = "bit/s, as a whole number or with one of k, M, G, T (powers of ten)"


class _Entry(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)


_RAILS = Field(
    default=1,
    ge=1,
    le=MAX_NICS,
    description=f"interfaces of each host, one on each of that many leaves in turn, 1 to {MAX_NICS}",
    examples=[4],
)


def _check_rails(rails: int, leaves: int, words: str) -> None:
    if leaves % rails:
        raise _problem("size", f"{words} cannot be shared out to {rails} rails")


class SwitchEntry(_Entry):
    """A switch."""

    name: Name = Field(description="the switch's name, a letter first", examples=["leaf1"])
    role: Literal["edge", "leaf", "spine", "core"] = Field(
        description="the role: edge (has hosts, below leaves), leaf (has hosts), spine, or core (super-spine)",
        examples=["leaf"],
    )
    pod: Name | None = Field(default=None, description="the pod it belongs to, a letter first", examples=["pod1"])
    dpid: int | None = Field(
        default=None,
        ge=1,
        le=2**64 - 1,
        description="an OpenFlow datapath id, a whole number of 1 to 64 bits; left out: "
        "0x101 on for leaves, 0x201 on for spines, 0x301 on for cores, 0x401 on for edge switches",
        examples=[0x101],
    )


class LinkEntry(_Entry):
    """A cable between two switches."""

    a: End = Field(description='the one end, "switch:port", or "switch" for its lowest free port', examples=["leaf1:1"])
    b: End = Field(
        description='the other end, "switch:port", or "switch" for its lowest free port', examples=["spine1:1"]
    )
    rate: Rate | None = Field(default=None, description=f"{_RATE}; left out: the file's rate", examples=["100G"])


class NicEntry(_Entry):
    """One network interface of a host that has several."""

    at: End = Field(description='"switch:port", or "switch" for its lowest free port', examples=["leaf1:5"])
    ipv4: Annotated[str, Field(pattern=_IPV4_PATTERN), AfterValidator(_ipv4)] | None = Field(
        default=None, description="address/prefix; left out: 10.0.LEAF.N/8", examples=["10.0.1.1/8"]
    )
    mac: Annotated[str, Field(pattern=_MAC_PATTERN), AfterValidator(_mac)] | None = Field(
        default=None,
        description="six hexadecimal pairs; left out: 02:00 and the IPv4 address",
        examples=["02:00:0a:00:01:01"],
    )
    rate: Rate | None = Field(default=None, description=f"{_RATE}; left out: the file's rate", examples=["100G"])


class HostEntry(NicEntry):
    """A host: where its only interface is, or a list of its interfaces, rail by rail."""

    name: Name = Field(description="the host's name, a letter first", examples=["h1_1"])
    at: End | None = Field(  # type: ignore[assignment]  # a host with `nics` has no place of its own
        default=None, description='"switch:port", or "switch" for its lowest free port', examples=["leaf1:5"]
    )
    nics: list[NicEntry] = Field(
        default=[],
        max_length=MAX_NICS,
        description=f"a list of the host's interfaces, {MAX_NICS} at most; the n-th one is on rail n",
        examples=[[{"at": "leaf1"}, {"at": "leaf2"}]],
    )

    @model_validator(mode="after")
    def _placed(self) -> "HostEntry":
        if self.at is None and not self.nics:
            raise _problem("place", "neither at nor nics is given")
        alone = [key for key in ("at", "ipv4", "mac", "rate") if getattr(self, key) is not None]
        if self.nics and alone:
            raise _problem("nics", f'both "nics" and "{alone[0]}" are given; write "{alone[0]}" at each of the nics')
        return self


class LeafSpine(_Entry):
    """A regular leaf-spine fabric, written as its dimensions.

    leafI has ports 1..S*P to the spines, spine by spine, then its hosts; spineJ has ports 1..L*P, leaf by leaf.
    Hosts are hI_N at leafI, with 10.0.I.N/8. With R rails, every R leaves are a group G whose hosts are hG_N, each with
    R interfaces, one on each leaf of the group.
    """

    leaves: int = Field(ge=1, le=255, description="the number of leaves, 1 to 255", examples=[4])
    spines: int = Field(ge=1, le=255, description="the number of spines, 1 to 255", examples=[4])
    hosts_per_leaf: int = Field(ge=0, le=254, description="hosts on each leaf, 0 to 254", examples=[4])
    rails: int = _RAILS
    links_per_pair: int = Field(
        default=1, ge=1, le=16, description="parallel cables between each leaf and each spine, 1 to 16", examples=[2]
    )
    uplink_rate: Rate | None = Field(default=None, description=f"{_RATE}; left out: the file's rate", examples=["400G"])
    host_rate: Rate | None = Field(default=None, description=f"{_RATE}; left out: the file's rate", examples=["100G"])

    @model_validator(mode="after")
    def _bounded(self) -> "LeafSpine":
        _check_rails(self.rails, self.leaves, f"{self.leaves} leaves")
        links = self.leaves * self.spines * self.links_per_pair
        if links > MAX_LINKS:
            raise _problem("size", f"{links} cables, more than the limit of {MAX_LINKS}")
        return self


class ThreeTier(_Entry):
    """A regular fabric of pods, written as its dimensions.

    Every pod has its leaves and spines, all joined. The n-th spine of each pod belongs to plane n, and is joined to
    all cores of that plane. leafI has ports to its pod's spines, then its hosts, which are hI_N with 10.0.I.N/8;
    spineJ has ports to its pod's leaves, then to its plane's cores; coreK has a port for each pod. Rails as in
    `leaf_spine`: a pod has one group of leaves, or several.
    """

    pods: int = Field(ge=2, le=128, description="the number of pods, 2 to 128", examples=[2])
    leaves_per_pod: int = Field(ge=1, le=128, description="leaves in each pod, 1 to 128", examples=[2])
    spines_per_pod: int = Field(ge=1, le=64, description="spines in each pod, 1 to 64; as many planes", examples=[2])
    cores_per_plane: int = Field(ge=1, le=128, description="cores in each plane, 1 to 128", examples=[2])
    hosts_per_leaf: int = Field(ge=0, le=254, description="hosts on each leaf, 0 to 254", examples=[2])
    rails: int = _RAILS
    uplink_rate: Rate | None = Field(
        default=None, description=f"{_RATE}, from leaf to spine; left out: the file's rate", examples=["400G"]
    )
    core_rate: Rate | None = Field(
        default=None, description=f"{_RATE}, from spine to core; left out: the file's rate", examples=["400G"]
    )
    host_rate: Rate | None = Field(default=None, description=f"{_RATE}; left out: the file's rate", examples=["100G"])

    @model_validator(mode="after")
    def _bounded(self) -> "ThreeTier":
        _check_rails(self.rails, self.leaves_per_pod, f"the {self.leaves_per_pod} leaves of a pod")
        links = self.pods * self.spines_per_pod * (self.leaves_per_pod + self.cores_per_plane)
        hosts = self.pods * self.leaves_per_pod * self.hosts_per_leaf
        switches = self.pods * (self.leaves_per_pod + self.spines_per_pod) + self.spines_per_pod * self.cores_per_plane
        for count, what, limit in (
            (switches, "switches", MAX_SWITCHES),
            (links, "cables", MAX_LINKS),
            (hosts, "hosts", MAX_HOSTS),
        ):
            if count > limit:
                raise _problem("size", f"{count} {what}, more than the limit of {limit}")
        return self


class TopologyFile(_Entry):
    """A Heddle topology file: either `leaf_spine` or `three_tier`, or `switches` with `links` and `hosts`."""

    model_config = ConfigDict(
        title="Heddle topology",
        json_schema_extra={
            "oneOf": [{"required": ["leaf_spine"]}, {"required": ["three_tier"]}, {"required": ["switches"]}]
        },
    )

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        max_length=64,
        description="the fabric's name: letters, digits, dot, dash, underscore",
        examples=["leafspine-4x4"],
    )
    rate: Rate | None = Field(default=None, description=f"{_RATE}, of every cable without its own", examples=["8M"])
    roce_mtu: Literal[256, 512, 1024, 2048, 4096] | None = Field(
        default=None,
        description="the path MTU of RoCE queue pairs, one of 256, 512, 1024, 2048, 4096 bytes",
        examples=[4096],
    )
    leaf_spine: LeafSpine | None = Field(
        default=None,
        description="a regular fabric, by its dimensions",
        examples=[{"leaves": 4, "spines": 4, "hosts_per_leaf": 4}],
    )
    three_tier: ThreeTier | None = Field(
        default=None,
        description="a regular fabric of pods and cores, by its dimensions",
        examples=[
            {"pods": 2, "leaves_per_pod": 2, "spines_per_pod": 2, "cores_per_plane": 1, "hosts_per_leaf": 2},
        ],
    )
    switches: list[SwitchEntry] = Field(
        default=[],
        max_length=MAX_SWITCHES,
        description="a list of switches",
        examples=[[{"name": "leaf1", "role": "leaf"}]],
    )
    links: list[LinkEntry] = Field(
        default=[], max_length=MAX_LINKS, description="a list of cables", examples=[[{"a": "leaf1:1", "b": "spine1:1"}]]
    )
    hosts: list[HostEntry] = Field(
        default=[], max_length=MAX_HOSTS, description="a list of hosts", examples=[[{"name": "h1_1", "at": "leaf1"}]]
    )
    aliases: dict[Alias, Name] = Field(
        default={},
        max_length=MAX_HOSTS,
        description="other names of hosts",
        examples=[{"gpu-1-0": "h1_1"}],
    )


def port_of(end: str) -> tuple[str, int | None]:
    """("leaf1", 5) of "leaf1:5"; the port is None when the file leaves it to us."""
    switch, _, port = end.partition(":")
    return switch, int(port) if re.fullmatch(r"[0-9]{1,5}", port) else None


def json_schema() -> str:
    """The JSON Schema (2020-12) of a topology file, as text."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **TopologyFile.model_json_schema()}
    return json.dumps(schema, indent=2) + "\n"


if __name__ == "__main__":
    print(json_schema(), end="")
