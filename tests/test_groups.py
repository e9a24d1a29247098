"""What the suite relies on of its own tools."""

import pytest


@pytest.mark.xdist_group("groups")
def test_a_parallel_run_is_told_which_tests_belong_to_one_process(request: pytest.FixtureRequest) -> None:
    in_parallel = hasattr(request.config, "workerinput")
    assert request.node.nodeid.endswith("@groups") is in_parallel
