"""The process's entry. It imports nothing before it listens for Ctrl-C, since the rest takes half a second."""

import sys


def main() -> None:
    """Runs `streamlease` with the process's arguments, and exits."""
    try:
        from streamlease_cli.commandline import cli

        cli()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
