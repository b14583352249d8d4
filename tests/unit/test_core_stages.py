"""How many batches a change takes: switches are prepared and switched over at once where none depends on another."""

from core_model import ask, quiet_faults, started
from fabrics import leaf, plan, spine

from controller.core.commands import Accepted, Remember, SendBatch
from controller.core.events import CollectiveAnnounced, CollectiveWithdrawn
from controller.fabric.plan import FabricPlan
from controller.jobs.collective import Algorithm, Collective, Operation
from controller.pipeline.diff import is_steering
from controller.pipeline.rules import AddGroup, AddRule, Barrier, Modification
from controller.simulation.network import ModelNetwork


def announced(fabric: FabricPlan) -> tuple[ModelNetwork, list[SendBatch]]:
    """A running fabric, and the batches that a ring over all hosts led to."""
    _, network = started(fabric)
    before_s = network.now_s
    ring = Collective("ring", Operation.ALL_REDUCE, Algorithm.RING, tuple(h.name for h in fabric.hosts), 1 << 30)
    assert isinstance(ask(network, CollectiveAnnounced(1, ring)), Accepted)
    return network, network.record.commands_of(SendBatch, since_s=before_s)


def kinds(modifications: tuple[Modification, ...]) -> list[type]:
    """The kinds of changes in their order, each run of equal ones once."""
    found = [type(m) for m in modifications]
    return [kind for kind, before in zip(found, [None, *found], strict=False) if kind is not before]


def test_leaves_that_prepare_only_themselves_get_one_batch() -> None:
    network, batches = announced(plan(leaves=3, spines=2))
    assert len(batches) == len({batch.dpid for batch in batches}) > 0
    assert {tuple(kinds(batch.modifications)) for batch in batches} == {(AddGroup, Barrier, AddRule)}
    # A handful of additions leaves nothing half changed, and one by one they are a round trip quicker than a bundle.
    assert not any(batch.atomic for batch in batches)
    # What is undone goes rules first, as ever.
    ask(network, CollectiveWithdrawn(2, "ring"))
    assert quiet_faults(network) == []


def test_a_spine_with_a_choice_is_prepared_before_any_leaf_switches_over() -> None:
    network, batches = announced(plan(leaves=3, spines=2, parallel=2))
    leaves = {s.dpid for s in network.plan.switches if s.name.startswith("leaf")}
    steered = [batch for batch in batches if any(isinstance(m, AddRule) for m in batch.modifications)]
    at_spines = [i for i, batch in enumerate(batches) if batch in steered and batch.dpid not in leaves]
    at_leaves = [i for i, batch in enumerate(batches) if batch in steered and batch.dpid in leaves]
    assert at_spines
    assert max(at_spines) < min(at_leaves)
    assert all(is_steering(m.rule) for b in steered for m in b.modifications if isinstance(m, AddRule))
    assert network.record.ordering_problems() == []


def test_switches_are_not_kept_waiting_for_the_store() -> None:
    fabric = plan(leaves=3, spines=2)
    core, network = started(fabric)
    ring = Collective("ring", Operation.ALL_REDUCE, Algorithm.RING, tuple(h.name for h in fabric.hosts), 1 << 30)
    commands = core.handle(CollectiveAnnounced(1, ring), network.now_s)
    order = [type(c) for c in commands if isinstance(c, SendBatch | Remember)]
    assert order.count(Remember) == 1
    assert order.index(Remember) == len(order) - 1 > 0
    assert core.memory.busy


def test_what_changes_a_rule_that_is_there_is_done_at_one_moment() -> None:
    """Another path for a flow overwrites its rule: the switch has the old one or the new one, with all that belongs."""
    fabric = plan(leaves=3, spines=3)
    core, network = started(fabric)
    ring = Collective("ring", Operation.ALL_REDUCE, Algorithm.RING, tuple(h.name for h in fabric.hosts), 1 << 30)
    ask(network, CollectiveAnnounced(1, ring))
    before_s = network.now_s
    a, b = next(iter(core.state.paths.values()))
    network.cut(network.cable(f"leaf{a.dpid - leaf(0)}", f"spine{b.dpid - spine(0)}"))
    network.run_until_quiet(60)
    moved = [
        batch
        for batch in network.record.commands_of(SendBatch, since_s=before_s)
        if any(isinstance(m, AddRule) and is_steering(m.rule) for m in batch.modifications)
    ]
    assert moved
    assert all(batch.atomic for batch in moved)
