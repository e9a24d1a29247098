"""`python -m streamlease_worker`: what the container runs. The process's edge: arguments, environment, exit code."""

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping, Sequence

from streamlease.errors import Denied, StreamleaseError
from streamlease.settings import Misconfigured
from streamlease_worker import health
from streamlease_worker.configuration import configuration
from streamlease_worker.equipment import equip
from streamlease_worker.identity import place
from streamlease_worker.log import Logging
from streamlease_worker.run import work

OK, FAILED, BAD_INPUT = 0, 1, 2


def main(argv: Sequence[str] | None = None, environment: Mapping[str, str] | None = None) -> int:
    """Returns the exit code: 0 drained, or healthy; 1 could not work, or is not healthy; 2 for bad input.

    What boto3 and Powertools read, they read from the process's own environment.
    """
    arguments = _parser().parse_args(argv)
    environment = os.environ if environment is None else environment
    if arguments.health:
        return health.main(environment)
    try:
        told = configuration(environment)
        equipment = equip(told, environment, place(environment))
    except (Misconfigured, Denied) as problem:  # Denied before anything was sent: a region, profile or endpoint
        return _complain(str(problem), BAD_INPUT)
    except StreamleaseError as problem:
        return _complain(str(problem), FAILED)
    logging = Logging(told.log_level, sys.stderr if told.sink == "stdout" else sys.stdout)
    try:
        ended = asyncio.run(work(equipment))
    except StreamleaseError as problem:
        return _complain(str(problem), FAILED)
    finally:
        logging.close()
    return OK if ended.outcome == "drained" else _complain(ended.reason, FAILED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="streamlease-worker",
        description="Own connections: claim, read, deliver, checkpoint, release. SIGTERM: give all up and end.",
        epilog="Everything is set by STREAMLEASE_* variables; see docs/worker.md.",
    )
    parser.add_argument(
        "--health", action="store_true", help="say whether the worker of this container is well, and end"
    )
    return parser


def _complain(sentence: str, code: int) -> int:
    sys.stderr.write(f"streamlease-worker: {sentence}\n")
    return code
