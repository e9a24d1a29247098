"""Runs a worker."""

import sys

from streamlease_worker.main import main

sys.exit(main())
