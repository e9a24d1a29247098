"""The `streamlease` command."""
