"""Link rates and queues of switch ports, as Open vSwitch QoS rows.

Rates are whole numbers: Open vSwitch reads a fraction as 12 kbit/s. The controller may replace these rows over OVSDB at
any time; what the kernel then needs is laid again by `lab_filters`.
"""

from collections.abc import Iterable, Mapping

from controller.qos.classes import QosSettings
from controller.qos.queues import Queue

# Below this, HTB has less than one frame per timer tick; Open vSwitch itself refuses less.
_SMALLEST_RATE_BPS = 12_000


def default_queues(rate_bps: int, settings: QosSettings) -> tuple[Queue, ...]:
    """One queue per traffic class, each guaranteed its share of `rate_bps` and allowed all of it."""
    return tuple(
        Queue(c.queue_id, max(_SMALLEST_RATE_BPS, int(rate_bps * c.share)), rate_bps, c.priority)
        for c in settings.classes
    )


def qos_arguments(port_rates: Mapping[str, int], queues_of: Mapping[int, Iterable[Queue]]) -> list[str]:
    """`ovs-vsctl` arguments that give every port in `port_rates` (name -> bit/s) its rate and queues.

    Ports of one rate share one QoS row: a fabric of 2,048 ports needs a handful of rows.
    """
    arguments: list[str] = []
    for number, rate in enumerate(sorted(set(port_rates.values()))):
        row = f"@qos{number}"
        for name in (name for name, r in port_rates.items() if r == rate):
            arguments += ["--", "set", "Port", name, f"qos={row}"]
        queues = tuple(queues_of.get(rate, ()))
        arguments += ["--", f"--id={row}", "create", "QoS", "type=linux-htb", f"other-config:max-rate={rate}"]
        arguments += [f"queues:{q.queue_id}=@queue{number}x{q.queue_id}" for q in queues]
        for q in queues:
            arguments += ["--", f"--id=@queue{number}x{q.queue_id}", "create", "Queue"]
            arguments += [f"other-config:min-rate={q.min_rate_bps}", f"other-config:max-rate={q.max_rate_bps}"]
            arguments += [f"other-config:priority={q.priority}"]
    return arguments
