from skillbus.cli.client.replies import Installed, Ran, SystemStatus
from skillbus.contracts import http
from skillbus.contracts.endpoint import HealthCheck
from skillbus.contracts.indexer.skills import IndexerStatus
from skillbus.contracts.sandbox.skill_runs import RunStatus

from .fake_server import skill_record


def test_an_installed_skill_is_read_as_the_gateway_writes_it() -> None:
    finding = {"code": "c", "message": "m", "where": "w"}
    written = http.UploadedSkill.model_validate(skill_record("greet") | {"outcome": "installed", "warnings": [finding]})

    read = Installed.model_validate_json(written.model_dump_json())

    assert (read.name, read.outcome, read.version, read.digest) == ("greet", "installed", "1.0.0", written.digest)
    assert read.warnings == written.warnings


def test_a_run_is_read_as_the_gateway_writes_it() -> None:
    artifact = http.RunArtifact(name="a", size_bytes=2, sha256="s", content=b"\x00\xff", url=None)
    written = http.RunReply(
        run_id="r",
        status=RunStatus.OK,
        exit_code=0,
        stdout="o",
        stderr="e",
        result={"x": 1},
        artifacts=(artifact,),
        duration_ms=1.5,
        truncated=False,
        isolation="bubblewrap",
    )

    read = Ran.model_validate_json(written.model_dump_json())

    assert read.model_dump() == written.model_dump()


def test_a_status_is_read_as_the_gateway_writes_it() -> None:
    held = IndexerStatus(skills=1, waiting=0, points=None, collection="c", model=None)
    written = http.SystemStatus(ready=True, services=(HealthCheck(name="nats", ready=True),), indexer=held)

    assert SystemStatus.model_validate_json(written.model_dump_json()).model_dump() == written.model_dump()
