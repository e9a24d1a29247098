"""Runs a worker; with `--health` asks after one, without importing what only a worker needs."""

import sys

if sys.argv[1:] == ["--health"]:
    from streamlease_worker import health

    sys.exit(health.main())

from streamlease_worker.main import main

sys.exit(main())
