"""`heddle plan` and `heddle withdraw`."""

import json

import grpc
import pytest
from cli_fakes import Fake, plan, serving

from controller.cli import plans
from controller.cli.main import invoke


def test_the_plan_of_one_job(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake(plans={"llama": plan("llama"), "other": plan("other")})) as fake:
        assert invoke(["plan", "llama", "--controller", fake.address]) == 0
    out = capsys.readouterr().out
    assert "job llama: placed, 2 flows" in out
    assert "job other" not in out
    assert [request.job_id for request in fake.requests] == ["llama"]


def test_the_plans_of_all_jobs_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake(plans={"a": plan("a"), "b": plan("b")})) as fake:
        assert invoke(["plan", "--json", "--controller", fake.address]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [p["job_id"] for p in answer["plans"]] == ["a", "b"]
    first = answer["plans"][0]
    assert first.keys() == {"job_id", "revision", "certificate", "flows", "state", "notes"}
    assert first["certificate"]["gap"] == 0.0
    assert first["certificate"]["proven_optimal"] is True
    assert first["flows"][0]["path"][0]["switch"] == "leaf1"
    assert first["flows"][0]["size_bytes"] == 38_654_705_664


def test_long_plans_are_cut_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake(plans={"big": plan("big", flows=plans.FLOWS_SHOWN + 3)})) as fake:
        assert invoke(["plan", "big", "--controller", fake.address]) == 0
        assert "… and 3 more flows" in capsys.readouterr().out
        assert invoke(["plan", "big", "--all", "--controller", fake.address]) == 0
    out = capsys.readouterr().out
    assert "more flows" not in out
    assert f"{plans.FLOWS_SHOWN + 2}-{plans.FLOWS_SHOWN + 3}:49152" in out


def test_watching_asks_for_what_is_newer(capsys: pytest.CaptureFixture[str]) -> None:
    """The long poll's second question names the revision of the first answer; then the fake refuses, which ends it."""

    class Impatient(Fake):
        def GetPlan(self, request: object, context: grpc.ServicerContext) -> object:
            if len(self.requests) == 1:
                self.refusal = (grpc.StatusCode.NOT_FOUND, ["no job 'llama' is announced"])
            return super().GetPlan(request, context)

    with serving(Impatient()) as fake:
        assert invoke(["plan", "llama", "--watch", "--json", "--controller", fake.address]) == 2
    first, second = fake.requests
    assert not first.HasField("newer_than_revision")
    assert second.newer_than_revision == 7
    assert 0 < second.wait_s <= 60
    captured = capsys.readouterr()
    assert json.loads(captured.out)["revision"] == 7
    assert captured.err == "heddle: no job 'llama' is announced\n"


def test_withdrawing(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(Fake()) as fake:
        assert invoke(["withdraw", "llama", "--controller", fake.address]) == 0
        assert capsys.readouterr().out == "withdrew llama: 12 rules changed\n"
        assert invoke(["withdraw", "llama", "--json", "--controller", fake.address]) == 0
    assert json.loads(capsys.readouterr().out) == {"rules_changed": 12}
    assert fake.requests[0].job_id == "llama"
