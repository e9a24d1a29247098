"""The reader's side of sinks that cannot fence: drops stale epochs and duplicates. See docs/consume.md."""
