"""What a worker process works with."""

import pytest

from streamlease_worker.configuration import configuration
from streamlease_worker.equipment import equip
from streamlease_worker.identity import Place
from tests.worker.test_configuration import ENVIRONMENT


@pytest.mark.parametrize(
    ("told", "revision", "generation"), [(None, 17, 17), ("1800000000", 17, 1_800_000_000), ("0", 17, 0), (None, 0, 0)]
)
def test_deployments_are_ordered_by_what_was_told_else_by_the_task_definitions_revision(
    told: str | None, revision: int, generation: int
) -> None:
    environment = {**ENVIRONMENT, "STREAMLEASE_SINK": "null", "STREAMLEASE_GENERATION": told or ""}
    equipment = equip(configuration(environment), environment, Place("host", "", revision))
    equipment.threads.shutdown()
    assert equipment.generation == generation
