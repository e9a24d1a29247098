"""What the demonstration says of the machine where a limit was missed."""

from streamlease_cli.local.demo import of_the_machine


def test_a_machine_with_more_to_run_than_cores_is_named_as_a_cause() -> None:
    said = of_the_machine(5.26, 2)
    assert said.startswith("this machine has 2 cores and had a load of 5.3 in the last minute: a shortage of CPU does")
    assert "run it again on a quieter machine" in said


def test_a_quiet_machine_is_no_excuse() -> None:
    assert "is not likely here" in of_the_machine(1.0, 1)
