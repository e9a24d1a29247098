import pytest

from tests.template.document import Document, template


@pytest.fixture(scope="session")
def document() -> Document:
    return template()
