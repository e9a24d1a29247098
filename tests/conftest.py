"""What holds for every test: none can reach an AWS account by accident or depends on its caller's settings."""

import os
import signal

import pytest
from hypothesis import HealthCheck, settings

# A shell's background jobs begin deaf to it, and so does what they start: tests of Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Set at import, before any test module makes a client. An endpoint given on purpose keeps the caller's credentials.
ENDPOINT_GIVEN = "STREAMLEASE_TEST_ENDPOINT" in os.environ

for _name in [name for name in os.environ if name.startswith(("STREAMLEASE_", "POWERTOOLS_"))]:
    if _name != "STREAMLEASE_TEST_ENDPOINT":
        del os.environ[_name]

os.environ.setdefault("AWS_DEFAULT_REGION", "eu-west-1")
os.environ["AWS_EC2_METADATA_DISABLED"] = "true"
if not ENDPOINT_GIVEN:
    for _name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_REGION"):
        os.environ.pop(_name, None)
    os.environ["AWS_ACCESS_KEY_ID"] = "testing"
    os.environ["AWS_SECRET_ACCESS_KEY"] = "testing"
    os.environ["AWS_CONFIG_FILE"] = os.devnull
    os.environ["AWS_SHARED_CREDENTIALS_FILE"] = os.devnull

# Shared cores make deadlines lie. In continuous integration the examples are the same in every run.
settings.register_profile(
    "streamlease",
    deadline=None,
    derandomize=os.environ.get("CI") == "true",
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("streamlease")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a parallel run, tests of one `xdist_group` go to one process, so that each server and build is made once.

    pytest-xdist tells its scheduler the group by a suffix to the test's id, which since pytest 9.2 takes no effect
    (pytest-xdist issue 1386): every group fell apart in silence. Where the suffix is there, this changes nothing.
    """
    if not hasattr(config, "workerinput"):
        return
    for item in items:
        groups = sorted({str(mark.args[0]) for mark in item.iter_markers("xdist_group")})
        suffix = f"@{'_'.join(groups)}"
        if groups and not item.nodeid.endswith(suffix):
            item._id = type(item.id).parse(item.nodeid + suffix)
