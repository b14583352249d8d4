"""What the core is made of, put together. Each part decides something of its own; `settling` and `machine` use them."""

from controller.core.chronicle import Chronicle
from controller.core.comparing import Comparisons
from controller.core.learning import Learning
from controller.core.link_watch import LinkWatch
from controller.core.memory import Memory
from controller.core.packets import PacketHandler
from controller.core.reconcile import Reconciler
from controller.core.searching import Searches
from controller.core.settings import CoreSettings
from controller.core.state import State
from controller.core.survey import Survey
from controller.fabric.answers import Answers
from controller.fabric.discovery import Cable, Discovery
from controller.fabric.hosts import HostTable
from controller.fabric.model import PortRef
from controller.fabric.view import PlanIndex


class Parts:
    """All that the core knows and has; of one run of the controller."""

    def __init__(self, settings: CoreSettings) -> None:
        self.settings = settings
        self.state = State()
        self.plan = PlanIndex.of(settings.plan)
        # The key is random for each run, which is all that is asked of the seed.
        self.discovery = Discovery(settings.beacon_period_s, int.from_bytes(settings.beacon_key[:4], "big"))
        self.answers = Answers()
        self.watch = LinkWatch(settings, self.plan, self.state, self.discovery, self.answers)
        self.links, self.heartbeats, self.rates = self.watch.links, self.watch.heartbeats, self.watch.rates
        self.chronicle = Chronicle(self.state, self.plan, self.links)
        self.hosts = HostTable(settings.plan)
        self.discovery.leads_to_host = self.hosts.is_host_port
        self.packets = PacketHandler(settings.beacon_key, self.discovery, self.hosts, self.plan.port_name)
        self.survey = Survey(settings, self.plan, self.state, self.watch, self.hosts, self.packets)
        self.reconciler = Reconciler(
            self.state,
            settings.batch_timeout_s,
            settings.audit_period_s,
            drain_s=settings.drain_s,
            change_timeout_s=settings.change_timeout_s,
            foreign=settings.foreign,
        )
        # As read of the ports; whether they are large enough is `views.port_sizes`'s to say.
        self.mtu_bytes: dict[PortRef, int] = {}
        self.memory = Memory()
        self.comparisons = Comparisons(self.state)
        self.searches = Searches(self.state, settings.aside_above_flows)
        self.learning = Learning(settings.beacon_period_s, set(self.plan.names))

    @property
    def usable(self) -> tuple[Cable, ...]:
        """The links that paths may use; sorted."""
        return self.watch.usable
