"""SONiC's minigraph: what one device is cabled to, as its deployment system wrote it down.

It decides which links are the fabric's: DeviceInterfaceLink. Management and console links are left out with a remark.
Roles come from the device list (ToRRouter is a leaf here: the switch that has the hosts). Bandwidth is in Mbit/s.
Source: github.com/sonic-net/sonic-buildimage, src/sonic-config-engine/minigraph.py (2026).
"""

from controller.fabric.cabling import CableEnd, CablingPlan
from controller.fabric.model import Role
from controller.formats.plan_builder import PlanBuilder, PlanFileError
from controller.formats.sonic_links import mbits
from controller.formats.xml_lines import Element, XmlFaultError, parse

_SERVERS = {"Server", "SmartCable", "Asic"}
# A tier's name depends on who counts: SONiC's "LeafRouter" (T1) is above the ToR, where we say spine.
_ROLES = {
    "ToRRouter": Role.LEAF,
    "BackEndToRRouter": Role.LEAF,
    "LeafRouter": Role.SPINE,
    "BackEndLeafRouter": Role.SPINE,
}
_NOT_FABRIC = {"DeviceMgmtLink": "management", "DeviceSerialLink": "console"}


def read(text: str, filename: str) -> CablingPlan:
    """The plan, which bears the device's name. Raises PlanFileError with every problem."""
    builder = PlanBuilder(filename, "minigraph")
    try:
        root = parse(text)
    except XmlFaultError as error:
        builder.problem(error.line, error.what, error.cure)
        raise PlanFileError(builder.problems) from None
    if root.tag != "DeviceMiniGraph":
        builder.problem(root.line, f"<{root.tag}> where <DeviceMiniGraph> belongs", "give a SONiC minigraph")
        raise PlanFileError(builder.problems)
    links = [link for link in root.all("PngDec", "DeviceInterfaceLinks", "DeviceLinkBase") if _is_fabric(link, builder)]
    for device in root.all("PngDec", "Devices", "Device"):
        _device(device, builder)
    for link in links:
        _link(link, builder)
    own = [info.get("Hostname") for info in root.all("DpgDec", "DeviceDataPlaneInfo")]
    return builder.plan(next(filter(None, [*own, root.get("Hostname")]), "minigraph"))


def _is_fabric(link: Element, builder: PlanBuilder) -> bool:
    kind = link.get("ElementType") or link.attributes.get("type", "")
    if kind in _NOT_FABRIC:
        ends = f"{link.get('StartDevice')}:{link.get('StartPort')} and {link.get('EndDevice')}:{link.get('EndPort')}"
        builder.remark(link.line, f"the {_NOT_FABRIC[kind]} link between {ends} is left out")
    return kind not in _NOT_FABRIC


def _device(device: Element, builder: PlanBuilder) -> None:
    name, kind = device.get("Hostname"), device.attributes.get("type") or device.get("ElementType")
    if not name:
        builder.problem(device.line, "a device without a name", "add <Hostname>NAME</Hostname>")
    elif kind in _SERVERS:
        builder.host(name, device.line)
    else:
        builder.switch(name, device.line, role=_ROLES.get(kind, Role.UNKNOWN))


def _link(link: Element, builder: PlanBuilder) -> None:
    ends = [(link.get(f"{side}Device"), link.get(f"{side}Port")) for side in ("Start", "End")]
    if not all(node for node, _ in ends):
        builder.problem(link.line, "a link without both its devices", "add <StartDevice> and <EndDevice>")
        return
    a, b = (CableEnd(node, port) for node, port in ends)
    builder.cable(a, b, link.line, mbits(link.get("Bandwidth"), link.line, builder))
