"""`python -m streamlease_cli`, where the command itself is not on the path."""

from streamlease_cli.main import main

main()
