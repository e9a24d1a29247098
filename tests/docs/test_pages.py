"""The pages for people, held against each other and against what they speak of."""

import re
from pathlib import Path

import pytest

from tests.template.document import resources_of, template

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", flags=re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    lines = FENCED.sub("", page.read_text()).splitlines()
    headings = [line.lstrip("#").strip().lower().replace("`", "") for line in lines if line.startswith("#")]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_a_link_leads_to_a_page_and_a_heading_that_are_there(page: Path) -> None:
    for link in LINK.findall(FENCED.sub("", page.read_text())):
        path, _, anchor = link.partition("#")
        if path.startswith(("https://", "http://")):
            continue
        target = page.parent / path if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def test_every_page_is_in_the_index() -> None:
    listed = set(LINK.findall((DOCS / "README.md").read_text()))
    assert {page.name for page in DOCS.glob("*.md")} - {"README.md"} <= listed


def test_the_page_for_who_is_on_call_speaks_of_every_alarm() -> None:
    """The throttles of tables and indexes have one section, by name and kind."""
    text = (DOCS / "operations.md").read_text()
    headings = {word for line in text.splitlines() if line.startswith("### ") for word in line[4:].split(", ")}
    for alarm in resources_of(template(), "AWS::CloudWatch::Alarm"):
        name = alarm.removesuffix("Alarm")
        assert name in headings or f"`{name.removesuffix('Throttles')}`" in text, alarm


def test_the_page_about_deploying_names_parameters_and_outputs_that_exist() -> None:
    text = (DOCS / "deploy.md").read_text() + (DOCS / "operations.md").read_text() + (ROOT / "README.md").read_text()
    document = template()
    outputs = set(re.findall(r"\$\(out (\w+)\)", text))
    assert outputs
    assert outputs <= set(document["Outputs"])
    assigned = {
        name for code in CODE.findall(text) for name in re.findall(r"(?<![\w-])([A-Z][a-z]+(?:[A-Z][a-z]+)+)=", code)
    }
    assert assigned
    assert assigned <= set(document["Parameters"])
