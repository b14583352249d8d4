"""What the core writes down of what happens: causes at once, outcomes with the times of each tier, within bounds."""

from core_model import all_to_all, ask, started
from fabrics import plan, spine

from controller.core.events import CollectiveAnnounced, DrainWanted, UndrainWanted
from controller.core.history import KEPT, History, Topic
from controller.core.state import State


def test_a_cut_is_an_entry_at_once_and_its_repair_another_with_the_times_of_each_tier() -> None:
    of = plan(leaves=3, spines=3, hosts=1)
    core, network = started(of)
    history = core.chronicle.history
    (known,) = [e for e in history.entries if e.topic is Topic.CONTROLLER]
    assert known.message == "the fabric is known: 6 switches, 9 links, 3 hosts"
    ask(network, CollectiveAnnounced(1, all_to_all(of, ports=3)))
    before, cut_s = history.last, network.now_s
    network.cut(network.cable("leaf1", "spine1"))
    network.run_until_quiet(30)
    entries, forgotten = history.after(before)
    assert forgotten == 0
    assert [e.number for e in entries] == list(range(before + 1, history.last + 1))
    cut, *_ = [e for e in entries if e.topic is Topic.LINK]
    assert (cut.cause, cut.subject) == ("no-carrier", "leaf1:1 - spine1:1")
    assert cut_s < cut.at_s < cut_s + 0.1
    outcome = next(e.outcome for e in entries if e.outcome and cut.number in e.outcome.causes)
    assert 0 <= outcome.planned_s <= outcome.repaired_s < 0.1
    assert outcome.moved > 0
    assert outcome.changes > 0
    assert outcome.switches > 1
    assert outcome.certificate is not None
    assert outcome.certificate.max_load_s > outcome.max_load_before_s


def test_the_report_of_the_second_end_makes_no_second_plan() -> None:
    of = plan(leaves=3, spines=3, hosts=1)
    core, network = started(of)
    ask(network, CollectiveAnnounced(1, all_to_all(of, ports=3)))
    network.run_for(5.0)
    revision = core.state.revision
    network.cut(network.cable("leaf1", "spine1"))
    network.run_for(0.9)
    assert core.state.revision == revision + 1


def test_a_second_cut_during_the_repair_of_the_first_is_not_lost() -> None:
    of = plan(leaves=3, spines=3, hosts=1)
    core, network = started(of)
    ask(network, CollectiveAnnounced(1, all_to_all(of, ports=2)))
    before = core.chronicle.history.last
    network.cut(network.cable("leaf1", "spine1"))
    while core.chronicle.history.last == before:
        network.run_for(0.0005)
    network.cut(network.cable("leaf2", "spine2"))
    network.run_until_quiet(30)
    entries, _ = core.chronicle.history.after(before)
    causes = [e.number for e in entries if e.topic is Topic.LINK]
    answered = [n for e in entries if e.outcome for n in e.outcome.causes]
    assert len(causes) >= 2
    assert sorted(answered) == causes


def test_drains_jobs_and_switches_are_told_with_who_wanted_them() -> None:
    of = plan(leaves=2, spines=2, hosts=1)
    core, network = started(of)
    ask(network, DrainWanted(1, (spine(1),), "firmware"))
    ask(network, UndrainWanted(2, (spine(1),)))
    # Nothing changes, so nothing is told.
    ask(network, UndrainWanted(3, (spine(1),)))
    network.lose_session("leaf1")
    network.run_until_quiet(30)
    told = [e.message for e in core.chronicle.history.entries if e.topic in (Topic.DRAIN, Topic.SWITCH)]
    assert told[:2] == ["spine1 is to be avoided (operator): firmware", "spine1 may be used again (operator)"]
    assert told[2].startswith("leaf1 disconnected")
    assert told[-1].startswith("leaf1 connected")


def test_the_oldest_entries_go_and_a_reader_that_comes_late_is_told_how_many() -> None:
    history = History(State())
    for number in range(KEPT + 5):
        history.note(Topic.JOB, "job", f"note {number}", float(number))
    found, forgotten = history.after(2)
    assert (len(found), forgotten, found[0].number) == (KEPT, 3, 6)
    assert history.after(history.last) == ([], 0)
