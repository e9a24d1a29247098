"""Building and deploying with the real SAM CLI, on a project that is small enough to do it often."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamlease_cli.local.build import Build, _is_whole, _listing, build, content_hash
from streamlease_cli.local.checkout import Checkout, find_checkout
from streamlease_cli.local.deploy import deploy
from streamlease_cli.local.emulator import DIRECT, Emulator, start_emulator
from streamlease_cli.local.fault import LocalFault

TEMPLATE = """
Transform: AWS::Serverless-2016-10-31
Parameters:
  LeaseMode: {Type: String, Default: connection}
Resources:
  Echo:
    Type: AWS::Serverless::Function
    Properties:
      Runtime: python3.13
      Handler: app.handler
      CodeUri: functions/echo/
      Timeout: 20
      Environment: {Variables: {STREAMLEASE_LEASE_MODE: !Ref LeaseMode}}
  Offers: {Type: AWS::SQS::Queue}
Outputs:
  OffersQueueUrl: {Value: !Ref Offers}
  LeaseMode: {Value: !Ref LeaseMode}
  EchoFunction: {Value: !Ref Echo}
"""
HANDLER = """
import os
def handler(event, context):
    return {"said": event, "pid": os.getpid(), "region": os.environ["AWS_REGION"]}
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    root = tmp_path_factory.mktemp("checkout")
    (root / "template.yaml").write_text(TEMPLATE)
    (root / "functions" / "echo").mkdir(parents=True)
    (root / "functions" / "echo" / "app.py").write_text(HANDLER)
    (root / "functions" / "echo" / "requirements.txt").write_text("")
    (root / ".local").mkdir()
    (root / ".local" / "envs").symlink_to(find_checkout().local / "envs")
    return Checkout(root)


@pytest.fixture(scope="module")
def said() -> list[str]:
    return []


@pytest.fixture(scope="module")
def built(checkout: Checkout, said: list[str]) -> Build:
    return build(checkout, checkout.local / "build.log", said.append)


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with start_emulator(find_checkout(), tmp_path_factory.mktemp("emulator") / "log") as emulator:
        yield emulator


def test_the_same_sources_are_built_once(checkout: Checkout, built: Build) -> None:
    again = build(checkout, checkout.local / "build.log")
    assert not built.reused
    assert again.reused
    assert again.template == built.template
    assert again.template.is_file()


def test_a_build_says_at_once_what_is_waited_for_and_one_that_is_reused_says_nothing(
    checkout: Checkout, built: Build, said: list[str]
) -> None:
    assert said[0].startswith("sam build: packs the functions and their library, minutes where nothing is cached (log:")
    again: list[str] = []
    build(checkout, checkout.local / "build.log", again.append)
    assert again == []


def test_a_damaged_build_is_made_anew(checkout: Checkout, built: Build) -> None:
    handler = built.template.parent / "Echo" / "app.py"
    handler.unlink()
    said: list[str] = []
    again = build(checkout, checkout.local / "build.log", said.append)
    assert (again.reused, again.template) == (False, built.template)
    assert "is damaged, and is made anew" in said[0]
    assert handler.read_text() == HANDLER


@pytest.mark.parametrize("damage", ["gone", "emptied", "more", "no listing"])
def test_a_build_is_whole_while_every_file_is_there_as_it_was_made(tmp_path: Path, damage: str) -> None:
    built = tmp_path / "build" / "Echo"
    built.mkdir(parents=True)
    (built / "app.py").write_text(HANDLER)
    (tmp_path / "listing").write_text(_listing(tmp_path / "build"))
    assert _is_whole(tmp_path)
    match damage:
        case "gone":
            (built / "app.py").unlink()
        case "emptied":
            (built / "app.py").write_text("")
        case "more":
            (built / "torn").touch()
        case "no listing":
            (tmp_path / "listing").unlink()
    assert not _is_whole(tmp_path)


def test_what_a_build_or_an_import_makes_does_not_count_as_a_change(checkout: Checkout) -> None:
    before = content_hash(checkout.root)
    for name in ("functions/echo/__pycache__/app.pyc", "functions/x.egg-info/PKG-INFO"):
        path = checkout.root / name
        path.parent.mkdir()
        path.write_text("made")
    assert content_hash(checkout.root) == before


@pytest.mark.parametrize("change", ["content", "name", "template", "new file"])
def test_every_other_change_is_a_change(tmp_path: Path, change: str) -> None:
    (tmp_path / "functions").mkdir()
    (tmp_path / "template.yaml").write_text("a")
    code = tmp_path / "functions" / "app.py"
    code.write_text("b")
    before = content_hash(tmp_path)
    match change:
        case "content":
            code.write_text("c")
        case "name":
            code.rename(code.with_name("other.py"))
        case "template":
            (tmp_path / "template.yaml").write_text("c")
        case _:
            (tmp_path / "functions" / "more.py").write_text("")
    assert content_hash(tmp_path) != before


def test_a_checkout_without_a_template_is_said_to_be_incomplete(tmp_path: Path) -> None:
    with pytest.raises(LocalFault, match=r"has no template\.yaml"):
        content_hash(tmp_path)


@pytest.fixture
def refused(tmp_path: Path, checkout: Checkout) -> Checkout:
    """A checkout whose template asks for a parameter that nobody gives."""
    (tmp_path / "template.yaml").write_text(
        """
Parameters:
  Size: {Type: Number}
Resources:
  Queue: {Type: AWS::SQS::Queue}
"""
    )
    (tmp_path / ".local").mkdir()
    (tmp_path / ".local" / "envs").symlink_to(checkout.local / "envs")
    return Checkout(tmp_path)


def test_a_failed_build_says_what_sam_said_and_leaves_nothing_to_reuse(refused: Checkout, tmp_path: Path) -> None:
    layer = "Type: AWS::Serverless::LayerVersion, Properties: {ContentUri: layers/}, Metadata: {BuildMethod: makefile}"
    (tmp_path / "template.yaml").write_text(
        f"Transform: AWS::Serverless-2016-10-31\nResources:\n  Layer: {{{layer}}}\n"
    )
    (tmp_path / "layers").mkdir()
    (tmp_path / "layers" / "Makefile").write_text("build-Layer:\n\t@echo no wheels here; exit 1\n")
    for _ in range(2):
        with pytest.raises(LocalFault, match=r"sam build failed with 1: .*Make Failed.*\(log: "):
            build(refused, tmp_path / "log")


@pytest.mark.emulator
def test_a_deployed_stack_tells_its_settings_and_takes_an_update(
    checkout: Checkout, built: Build, emulator: Emulator, tmp_path: Path
) -> None:
    first = deploy(checkout, built, emulator, "small", {}, tmp_path / "log")
    assert first.settings()["STREAMLEASE_LEASE_MODE"] == "connection"
    assert first.settings()["STREAMLEASE_OFFERS_QUEUE_URL"].startswith(emulator.endpoint)
    assert deploy(checkout, built, emulator, "small", {}, tmp_path / "log") == first
    changed = deploy(checkout, built, emulator, "small", {"LeaseMode": "worker"}, tmp_path / "log")
    assert changed.settings()["STREAMLEASE_LEASE_MODE"] == "worker"
    assert changed.outputs["OffersQueueUrl"] == first.outputs["OffersQueueUrl"]


@pytest.mark.emulator
def test_a_refused_deployment_says_what_sam_said(refused: Checkout, emulator: Emulator, tmp_path: Path) -> None:
    template = build(refused, tmp_path / "log")
    with pytest.raises(LocalFault, match=r"sam deploy failed with 1.*Size"):
        deploy(refused, template, emulator, "refused", {}, tmp_path / "log")


@pytest.mark.emulator
def test_a_function_runs_inside_the_emulators_process_group_and_ends_with_it(
    checkout: Checkout, built: Build, tmp_path: Path
) -> None:
    with start_emulator(find_checkout(), tmp_path / "log") as emulator:
        stack = deploy(checkout, built, emulator, "small", {}, tmp_path / "log")
        functions = emulator.session().client("lambda", endpoint_url=emulator.endpoint, config=DIRECT)
        answer = functions.invoke(FunctionName=stack.outputs["EchoFunction"], Payload=b'{"a": 1}')
        said = json.load(answer["Payload"])
        assert said["said"] == {"a": 1}
        assert said["region"] == "eu-west-1"
        assert os.getpgid(said["pid"]) == emulator.process.pid
        emulator.process.kill()
        assert emulator.process.wait(10) == -signal.SIGKILL
        assert not runs(said["pid"])


def runs(pid: int) -> bool:
    """False for what has ended, reaped or not."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
