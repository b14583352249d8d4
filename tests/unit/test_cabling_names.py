"""Host names, aliases and host-list expressions (B50a, b, c, g)."""

import csv
import os
from pathlib import Path

import pytest

from controller.fabric.host_lists import HostListError, collect, expand
from controller.fabric.names import resolver

SHARED = Path(os.environ.get("HEDDLE_INPUTS") or Path(__file__).parents[2].parent / "shared" / "inputs")


@pytest.mark.parametrize(
    ("expression", "hosts"),
    [
        ("b04-[09-10]", ["b04-09", "b04-10"]),
        ("a[1-2],b[3,5]", ["a1", "a2", "b3", "b5"]),
        ("rack[1-2]n[1-2]", ["rack1n1", "rack1n2", "rack2n1", "rack2n2"]),
        ("x-m11-16", ["x-m11-16"]),
        ("n03,n0[10-11],n[103-104],n[9,12],n-m1-6", ["n03", "n010", "n011", "n103", "n104", "n9", "n12", "n-m1-6"]),
        ("ml-16-n-[001-002,004],ml-17-n-[001]", ["ml-16-n-001", "ml-16-n-002", "ml-16-n-004", "ml-17-n-001"]),
        ("n[01-3]", ["n01", "n02", "n03"]),
        ("n1,n1", ["n1"]),
    ],
)
def test_expressions_mean_their_hosts(expression: str, hosts: list[str]) -> None:
    assert list(expand(expression)) == hosts


def test_every_expression_of_the_shared_table() -> None:
    table = SHARED / "hostlists.tsv"
    if not table.is_file():
        pytest.skip(f"the shared input hostlists.tsv is not at {SHARED} (set HEDDLE_INPUTS)")
    with table.open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert rows
    for row in rows:
        found = expand(row["expression"])
        wanted = next(value for key, value in row.items() if key.startswith("expansion")).split(",")
        assert (len(found), list(found)) == (int(row["count"]), wanted), row["expression"]


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("(null)", "no host at all"),
        ("", "no host at all"),
        ("node[1-1000000000]", "the limit is"),
        ("node[1-100000][1-100000]", "the limit is"),
        ("node[4-1]", "write 1-4"),
        ("node[1-", "no range|unbalanced"),
        ("node[]", "no range"),
        ("node[1,,2]", "no range"),
        ("node[1-2]]", "unbalanced|bracket"),
        ("a,,b", "empty name"),
        ("a b", "commas without spaces"),
        ("node[1-" + "9" * 5000 + "]", "digits"),
        ("[1]" * 2000, "brackets"),
    ],
)
def test_what_is_no_list_of_hosts_is_refused_with_a_cure(expression: str, said: str) -> None:
    with pytest.raises(HostListError, match=said) as refused:
        expand(expression)
    assert refused.value.cure


def test_collected_names_expand_to_the_same_set() -> None:
    names = ["n001", "n002", "n007", "login", "r1-n1", "r1-n2"]
    assert set(expand(collect(names))) == set(names)


HOSTS = {
    "gpu-1-0": ("10.1.2.3",),
    "gpu-1-1.cluster.example": ("10.1.2.4", "fd00::4"),
    "Node7": ("10.1.2.7",),
}


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("gpu-1-0", "gpu-1-0"),
        ("gpu-1-0.svc.default.svc.cluster.local", "gpu-1-0"),
        ("GPU-1-0.", "gpu-1-0"),
        ("gpu-1-1", "gpu-1-1.cluster.example"),
        ("ip-10-1-2-3", "gpu-1-0"),
        ("ip-10-1-2-4.ec2.internal", "gpu-1-1.cluster.example"),
        ("10.1.2.7", "Node7"),
        ("fd00:0::4", "gpu-1-1.cluster.example"),
        ("node7", "Node7"),
        ("trainer-0", "Node7"),
        ("trainer-0.jobs.svc", "Node7"),
    ],
)
def test_any_spelling_finds_its_host(text: str, host: str) -> None:
    assert resolver(HOSTS, {"trainer-0": "Node7"}).find(text).name == host


def test_what_means_no_host_or_several_is_said() -> None:
    names = resolver({"a.x": (), "a.y": (), "b": ()}, {"old": "gone"})
    assert names.find("nobody").why == "no host 'nobody' on this fabric"
    assert names.find("a").why == "'a' could be any of a.x, a.y"
    assert names.find("old").name is None
    # Two full names of different domains are two hosts.
    assert names.find("a.z").name is None


def test_expressions_name_what_they_do_not_find() -> None:
    hosts, wrong = resolver({"n1": (), "n2": ()}).expand("n[1-3],n9")
    assert hosts == ("n1", "n2")
    assert wrong == ("no host 'n3' on this fabric", "no host 'n9' on this fabric")
    assert resolver({"n1": ()}).expand("(null)")[0] == ()
