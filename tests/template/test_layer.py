"""The layer as `sam build` makes it: whole, for both architectures, and nothing that no function imports."""

import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.template.document import ROOT, Document, properties_of, resources_of

SAM = ROOT / ".local/envs/sam/bin"
SDK = {"boto3", "botocore", "s3transfer", "urllib3", "dateutil", "six.py"}


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """/opt/python, built by the Makefile from a copy of the sources, the way SAM does it."""
    if not (SAM / "python3.13").exists():
        pytest.skip("needs .local/envs/sam, which `make setup` makes")
    source, artifacts = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("layer")
    folder = ROOT / "layers/streamlease"
    shutil.copytree(folder, source, dirs_exist_ok=True)
    done = subprocess.run(  # noqa: S603
        ["make", "--makefile", folder / "Makefile", "build-StreamleaseLayer"],  # noqa: S607
        cwd=source,
        env={**os.environ, "ARTIFACTS_DIR": str(artifacts), "PATH": f"{SAM}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return artifacts / "python"


def test_its_makefile_has_the_target_that_sam_calls(document: Document) -> None:
    [(name, declared)] = resources_of(document, "AWS::Serverless::LayerVersion").items()
    assert declared["Metadata"]["BuildMethod"] == "makefile"
    assert declared["Properties"]["ContentUri"] == "layers/streamlease"
    assert f"\nbuild-{name}:\n" in (ROOT / "layers/streamlease/Makefile").read_text()
    assert declared["Properties"]["CompatibleArchitectures"] == ["x86_64", "arm64"]
    assert document["Globals"]["Function"]["Layers"] == [{"Ref": name}]
    runtime = document["Globals"]["Function"]["Runtime"]
    assert declared["Properties"]["CompatibleRuntimes"] == [runtime] == ["python3.13"]


def test_functions_bring_nothing_of_their_own(document: Document) -> None:
    for name in resources_of(document, "AWS::Serverless::Function"):
        folder = ROOT / properties_of(document, name)["CodeUri"]
        assert not (folder / "requirements.txt").exists()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the layer's compiled modules are for Linux with glibc")
@pytest.mark.xdist_group("layer")
def test_a_function_can_import_all_of_it_from_the_layer(layer: Path) -> None:
    wanted = "streamlease, pydantic_core, aws_lambda_powertools, jmespath, wrapt"
    code = f"import {wanted}\nfor module in ({wanted}): print(module.__file__)"
    # -I and -S: neither this environment nor its packages, only the standard library and the layer. -B: write nothing.
    start = f"import sys; sys.path.insert(0, {str(layer)!r})\n{code}"
    command = [sys.executable, "-I", "-S", "-B", "-c", start]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    assert done.returncode == 0, done.stderr
    assert all(line.startswith(str(layer)) for line in done.stdout.splitlines())


@pytest.mark.xdist_group("layer")
def test_every_compiled_module_is_there_for_both_architectures(layer: Path) -> None:
    compiled = {str(each.relative_to(layer)) for each in layer.rglob("*.so")}
    assert len(compiled) >= 4
    assert {each.replace("-x86_64-", "-aarch64-") for each in compiled if "-x86_64-" in each} == {
        each for each in compiled if "-aarch64-" in each
    }
    assert all("-x86_64-" in each or "-aarch64-" in each for each in compiled)


@pytest.mark.xdist_group("layer")
def test_it_carries_no_tests_no_bytecode_no_commands_and_no_sdk(layer: Path) -> None:
    everything = [each.relative_to(layer) for each in layer.rglob("*")]
    assert not [each for each in everything if {"__pycache__", "tests", ".layer"} & set(each.parts)]
    assert not [each for each in everything if each.suffix == ".pyc"]
    top = {each.name for each in layer.iterdir()}
    assert not top & (SDK | {"bin", "moto", "pytest", "streamlease_cli", "streamlease_worker"})
    assert "streamlease" in top


@pytest.mark.xdist_group("layer")
def test_it_holds_the_locked_versions_and_nothing_else(layer: Path) -> None:
    lines = (ROOT / "layers/streamlease/constraints.txt").read_text().splitlines()
    locked = {line.split()[0].replace("==", "-").replace("_", "-") for line in lines if "==" in line and line[0] != " "}
    found = {
        each.name.removesuffix(".dist-info").replace("_", "-")
        for each in layer.glob("*.dist-info")
        if not each.name.startswith("streamlease-")
    }
    assert found <= locked
    left_out = {each.rsplit("-", 1)[0] for each in locked - found}
    assert left_out == {"boto3", "botocore", "s3transfer", "python-dateutil", "six", "urllib3"}


@pytest.mark.xdist_group("layer")
def test_it_is_small(layer: Path, tmp_path: Path) -> None:
    archive = tmp_path / "layer.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for each in layer.rglob("*"):
            out.write(each, each.relative_to(layer.parent))
    assert archive.stat().st_size < 10_000_000  # 6 MB at the time of writing; 50 MB is what Lambda takes directly
