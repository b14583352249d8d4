"""Rails: inferred from where servers' interfaces are, with what breaks the pattern; and servers known by LLDP alone."""

import pytest
from lldp_frames import TTL, lldp

from controller.fabric import lldp as reader
from controller.fabric.lldp import Neighbour
from controller.fabric.model import PortRef
from controller.fabric.rails import Nic, infer
from controller.fabric.servers import ServerNic, server_nics


def pod(servers: int = 4, leaves: tuple[int, ...] = (1, 2, 3, 4), first: int = 1, nics: int = 4) -> list[Nic]:
    """Each server's interfaces are shared out evenly to the leaves."""
    per_leaf = nics // len(leaves)
    return [Nic(f"h{s}", n + 1, leaves[n // per_leaf]) for s in range(first, first + servers) for n in range(nics)]


def moved(nics: list[Nic], server: str, number: int, leaf: int) -> list[Nic]:
    return [Nic(server, number, leaf) if (n.server, n.number) == (server, number) else n for n in nics]


def found(nics: list[Nic]) -> tuple[dict[int, tuple[int, ...]], tuple[str, ...]]:
    result = infer(nics, lambda leaf: f"leaf{leaf}")
    return dict(result.of_leaf), result.problems


def test_interface_n_of_every_server_makes_rail_n() -> None:
    two_pods = pod() + pod(leaves=(5, 6, 7, 8), first=11)
    assert found(two_pods) == ({leaf: ((leaf - 1) % 4 + 1,) for leaf in range(1, 9)}, ())


def test_a_leaf_may_carry_several_rails() -> None:
    assert found(pod(leaves=(1, 2), nics=8)) == ({1: (1, 2, 3, 4), 2: (5, 6, 7, 8)}, ())


@pytest.mark.parametrize(
    "nics",
    [
        pytest.param([], id="nothing"),
        pytest.param([Nic("h1", 1, 1), Nic("h1", 2, 1)], id="both interfaces in one leaf"),
        pytest.param(pod(leaves=(1,), nics=8), id="a plain top-of-rack switch"),
    ],
)
def test_servers_on_one_leaf_say_nothing_of_rails(nics: list[Nic]) -> None:
    assert found(nics) == ({}, ())


def test_an_interface_on_another_rail_is_named_with_where_its_own_rail_is() -> None:
    rails, problems = found(moved(pod(12), "h12", 3, 2))
    assert rails == {1: (1,), 2: (2,), 3: (3,), 4: (4,)}
    assert problems == ("h12's NIC 3 is on leaf2, rail 2; rail 3 is leaf3",)


def test_two_swapped_interfaces_are_two_sentences() -> None:
    _, problems = found(moved(moved(pod(), "h2", 1, 4), "h2", 4, 1))
    assert problems == (
        "h2's NIC 1 is on leaf4, rail 4; rail 1 is leaf1",
        "h2's NIC 4 is on leaf1, rail 1; rail 4 is leaf4",
    )


def test_an_interface_in_another_rack_does_not_make_two_groups_one() -> None:
    two_pods = pod() + pod(leaves=(5, 6, 7, 8), first=11)
    rails, problems = found(moved(two_pods, "h2", 3, 7))
    assert rails == {leaf: ((leaf - 1) % 4 + 1,) for leaf in range(1, 9)}
    assert problems == ("h2's NIC 3 is on leaf7, rail 3 of another group; rail 3 is leaf3",)


def test_an_interface_on_a_leaf_without_rails_is_named() -> None:
    _, problems = found(moved(pod(), "h2", 3, 9))
    assert problems == ("h2's NIC 3 is on leaf9, which carries no rail; rail 3 is leaf3",)


def test_a_rail_that_no_leaf_has_most_of_cannot_be_told() -> None:
    crossed = moved(moved(pod(servers=2, leaves=(1, 2, 3), nics=3), "h2", 2, 3), "h2", 3, 2)
    rails, problems = found(crossed)
    assert rails == {1: (1,)} or rails == {}
    assert problems[:2] == (
        "rail 2 cannot be told: the servers' NIC 2 is on leaf2 (1) and leaf3 (1)",
        "rail 3 cannot be told: the servers' NIC 3 is on leaf2 (1) and leaf3 (1)",
    )


def test_many_misplaced_interfaces_are_counted() -> None:
    nics = pod(40)
    for server in range(1, 13):
        nics = moved(nics, f"h{server}", 1, 2)
    _, problems = found(nics)
    assert len(problems) == 9
    assert problems[-1] == "4 more NICs are not on the leaf of their rail"


# --- servers by LLDP -------------------------------------------------------------------------------------------------

_STATION = (7, b"\x00\x80\x00\x80")


def agent_frame(chassis: int, name: str, port: str) -> bytes:
    """What a host's agent (lldpd) says: one chassis id on every interface."""
    identity = (1, b"\x04" + chassis.to_bytes(6, "big"))
    return lldp(identity, (2, b"\x05" + port.encode()), TTL, (5, name.encode()), _STATION)


def agent(chassis: int, name: str, port: str) -> Neighbour:
    said = reader.decode(agent_frame(chassis, name, port))
    assert isinstance(said, Neighbour)
    return said


def test_interfaces_of_one_chassis_are_one_server_numbered_by_name() -> None:
    said = [(PortRef(leaf, 9), agent(1, "gpu1", f"eth{n}")) for n, leaf in ((10, 3), (2, 1), (9, 2))]
    assert server_nics(said) == {
        PortRef(1, 9): ServerNic("gpu1", 1),
        PortRef(2, 9): ServerNic("gpu1", 2),
        PortRef(3, 9): ServerNic("gpu1", 3),
    }


def test_an_interface_that_is_silent_does_not_renumber_the_others() -> None:
    whole = [(PortRef(leaf, 1), agent(1, "gpu1", f"eth{leaf}")) for leaf in (1, 2, 3)]
    partly = [(PortRef(leaf, 2), agent(2, "gpu2", f"eth{leaf}")) for leaf in (1, 3)]
    assert {port.dpid: nic.number for port, nic in server_nics(whole + partly).items() if nic.server == "gpu2"} == {
        1: 1,
        3: 3,
    }


def test_a_server_with_one_interface_and_one_that_names_two_alike_are_left_alone() -> None:
    alike = [(PortRef(leaf, 2), agent(2, "gpu2", "eth0")) for leaf in (1, 2)]
    assert server_nics([(PortRef(1, 1), agent(1, "gpu1", "eth0")), *alike]) == {}
