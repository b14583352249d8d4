"""What is plugged in besides hosts that send and switches of ours: whoever speaks LLDP, as it describes itself."""

from dataclasses import dataclass

from controller.core.machine import Core
from controller.core.views.common import EndpointView, endpoint
from controller.fabric.model import PortRef


@dataclass(frozen=True, slots=True)
class NeighbourView:
    """`kind` is "NIC", "host", "switch" or "unknown". Texts are empty, and numbers None, where it does not say."""

    port: EndpointView
    kind: str
    name: str
    port_name: str
    chassis_id: str
    port_id: str
    port_description: str
    system_name: str
    system_description: str
    management_addresses: tuple[str, ...]
    max_frame_bytes: int | None
    vlan: int | None
    age_s: float
    summary: str


def neighbours(core: Core, now_s: float) -> tuple[NeighbourView, ...]:
    """Those that count at present, by port."""

    def is_up(ref: PortRef) -> bool:
        known = core.discovery.ports.get(ref)
        return known is not None and known.port.up

    return tuple(
        NeighbourView(
            port=endpoint(core, heard.port),
            kind=said.kind.value,
            name=said.name,
            port_name=said.port_name,
            chassis_id=said.chassis_id,
            port_id=said.port_id,
            port_description=said.port_description,
            system_name=said.system_name,
            system_description=said.system_description,
            management_addresses=said.management_addresses,
            max_frame_bytes=said.max_frame_bytes,
            vlan=said.vlan,
            age_s=now_s - heard.heard_s,
            summary=str(said),
        )
        for heard in core.packets.neighbours.present(now_s, is_up)
        for said in (heard.neighbour,)
    )
