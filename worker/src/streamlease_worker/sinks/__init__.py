"""Where records go: one port (`base`), one file per sink, and how one is chosen (`choose`)."""
