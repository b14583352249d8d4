"""Link rates and queues of switch ports, as Open vSwitch QoS rows.

Rates are whole numbers: Open vSwitch reads a fraction as 12 kbit/s. The controller may replace these rows over OVSDB at
any time; what the kernel then needs is laid again by `lab_filters`.
"""

from collections.abc import Mapping

from controller.qos.classes import QosSettings
from controller.qos.queues import port_queues


def qos_arguments(dpid: int, port_rates: Mapping[int, tuple[str, int]], settings: QosSettings) -> list[str]:
    """`ovs-vsctl` arguments that give every port of one switch, number -> (name, bit/s), its rate and queues.

    The rows are what a controller with the same settings would write, and marked as its own, so that it takes them
    over without touching a port.
    """
    arguments: list[str] = []
    for number, (name, rate) in sorted(port_rates.items()):
        row, tag = f"@qos{number}", f'external-ids:heddle="{dpid:016x}:{number}"'
        queues = port_queues(number, rate, settings).queues if settings.enabled else ()
        arguments += ["--", "set", "Port", name, f"qos={row}"]
        arguments += ["--", f"--id={row}", "create", "QoS", "type=linux-htb", f"other-config:max-rate={rate}", tag]
        arguments += [f"queues:{q.queue_id}=@queue{number}x{q.queue_id}" for q in queues]
        for q in queues:
            arguments += ["--", f"--id=@queue{number}x{q.queue_id}", "create", "Queue", tag]
            arguments += [f"other-config:min-rate={q.min_rate_bps}", f"other-config:max-rate={q.max_rate_bps}"]
            arguments += [f"other-config:priority={q.priority}"]
    return arguments
