"""Every example of docs/examples: it passes `streamlease check`, and holds no secret; twelve of them have a fixture."""

import re
from pathlib import Path

import pytest

from tests.cli.system import System
from tests.protocols.streaming import EXAMPLES

FILES = sorted(EXAMPLES.glob("*.yaml"))
TWELVE = (
    "jetstream",
    "atproto",
    "binance",
    "coinbase",
    "kraken",
    "okx",
    "bybit",
    "alpaca",
    "finnhub",
    "discord",
    "slack",
    "nostr",
)
HERE = Path(__file__).parent


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_check_finds_nothing_wrong(file: Path) -> None:
    result = System().run("check", str(file), "--secrets", "ignore")
    assert result.exit_code == 0, result.output
    assert "cannot tell a duplicate" not in result.output or file.stem in ("finnhub", "kraken", "plain")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_secrets_are_references_that_a_stacks_workers_may_read(file: Path) -> None:
    """With the template's own prefix; `env:` is whatever the worker is given."""
    for store, name in re.findall(r"\b(ssm|secretsmanager):([^\s\"'}#,]+)", file.read_text()):
        assert name.startswith("/streamlease/" if store == "ssm" else "streamlease/"), name


@pytest.mark.parametrize("name", TWELVE)
def test_each_of_the_twelve_has_an_example_a_fixture_tests_and_a_row_of_the_page(name: str) -> None:
    assert (EXAMPLES / f"{name}.yaml").exists()
    assert (HERE / f"{name}.py").exists()
    assert (HERE / f"test_{name}.py").exists()
    assert f"(examples/{name}.yaml)" in (EXAMPLES.parent / "protocols.md").read_text()
