"""Mutation testing of the pure core: every small change of a module must fail one of the module's own tests.

Usage: make mutants [ARGS='plan.py']

Runs mutmut over `layers/streamlease/src/streamlease/{lease,plan,shares}.py` in a copy of the tree. A mutant that
survives is either explained in tests/core/mutants.toml or reported here with its change. Ends with one JSON line
`{mutants, killed, survived, explained}`; exit 1 where a survivor has no explanation, or an explanation no survivor.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / ".local/mutants"
SOURCE = ROOT / "layers/streamlease/src"
EXPLAINED = ROOT / "tests/core/mutants.toml"
TESTS: Mapping[str, tuple[str, ...]] = {
    "lease.py": (
        "test_lease.py",
        "test_lease_conditions.py",
        "test_lease_effects.py",
        "test_lease_owner.py",
        "test_lease_interleavings.py",
        "test_lease_later.py",
    ),
    "plan.py": ("test_plan.py",),
    "shares.py": ("test_shares.py", "test_shares_edges.py"),
}
"""The tests that are a module's own: not what reaches it from far, which would find any mutant by accident."""


@dataclass(frozen=True, slots=True)
class Survivor:
    """A change that no test noticed: the lines it took out, and those it put in."""

    module: str
    function: str
    change: str


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "modules", nargs="*", metavar="MODULE", help=f"one of {', '.join(TESTS)}; all of them if none is named"
    )
    modules: list[str] = parser.parse_args(arguments).modules or list(TESTS)
    if unknown := [name for name in modules if name not in TESTS]:
        parser.error(f"no tests are known of {unknown[0]}; there are {', '.join(TESTS)}")
    explained: dict[str, str] = {
        f"{each['function']}: {each['change']}": each["reason"]
        for module in modules
        for each in tomllib.loads(EXPLAINED.read_text()).get(module.removesuffix(".py"), [])
    }
    mutants, survivors = 0, []
    for module in modules:
        number, alive = mutate(module)
        mutants += number
        survivors += alive
    names = {f"{each.function}: {each.change}" for each in survivors}
    unexplained = [each for each in survivors if f"{each.function}: {each.change}" not in explained]
    for each in unexplained:
        say(f"survived in {each.module}, {each.function}:\n    {each.change}")
    for name in sorted(set(explained) - names):
        say(f"explained in {EXPLAINED.name}, but it does not survive: {name}")
    counts = {
        "mutants": mutants,
        "killed": mutants - len(survivors),
        "survived": len(survivors),
        "explained": len(survivors) - len(unexplained),
    }
    sys.stdout.write(json.dumps(counts) + "\n")
    return 1 if unexplained or set(explained) - names else 0


def mutate(module: str) -> tuple[int, list[Survivor]]:
    """How many mutants there are, and which survive."""
    lay_out(module)
    mutmut = [str(Path(sys.executable).parent / "mutmut")]
    say(f"{module}: {' '.join(TESTS[module])} ...")
    # Its progress is one line that is written again and again; what matters is asked for afterwards.
    ran = subprocess.run([*mutmut, "run"], cwd=PLACE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    found = subprocess.run([*mutmut, "results", "--all", "true"], cwd=PLACE, capture_output=True, text=True)
    verdicts = dict(line.strip().rsplit(": ", 1) for line in found.stdout.splitlines() if "__mutmut_" in line)
    if not verdicts or "not checked" in verdicts.values():
        raise SystemExit(f"mutants: mutmut did not run over {module}; its last words:\n{ran.stdout[-2000:]}")
    alive = [name for name, verdict in verdicts.items() if verdict != "killed"]
    say(f"{module}: {len(verdicts)} mutants, {len(alive)} not killed")
    return len(verdicts), [look_at(module, name, verdicts[name], mutmut) for name in alive]


def lay_out(module: str) -> None:
    """A copy of the tree that mutmut may change."""
    shutil.rmtree(PLACE, ignore_errors=True)
    PLACE.mkdir(parents=True)
    leave = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SOURCE, PLACE / "src", ignore=leave)
    shutil.copytree(ROOT / "tests/core", PLACE / "tests/core", ignore=leave)
    shutil.copy(ROOT / "tests/conftest.py", PLACE / "tests/conftest.py")
    settings = {
        "source_paths": ["src/"],
        "only_mutate": [f"src/streamlease/{module}"],
        "pytest_add_cli_args_test_selection": [f"tests/core/{name}" for name in TESTS[module]],
    }
    lines = "\n".join(f"{name} = {json.dumps(value)}" for name, value in settings.items())
    (PLACE / "pyproject.toml").write_text(f"{(ROOT / 'pyproject.toml').read_text()}\n[tool.mutmut]\n{lines}\n")


def look_at(module: str, name: str, verdict: str, mutmut: list[str]) -> Survivor:
    shown = subprocess.run([*mutmut, "show", name], cwd=PLACE, capture_output=True, text=True).stdout
    lines = [line for line in shown.splitlines() if line[:1] in "-+" and line[:3] not in ("---", "+++")]
    change = " ".join(f"{line[0]} {line[1:].strip()}" for line in lines)
    function = name.rpartition(".")[2].rpartition("__mutmut_")[0].removeprefix("x_")
    return Survivor(module, function, change if verdict == "survived" else f"({verdict}) {change}")


def say(text: str) -> None:
    """Progress and reasons; standard output is for the answer."""
    sys.stderr.write(f"mutants: {text}\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
