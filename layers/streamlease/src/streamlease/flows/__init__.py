"""The protocol's procedures of several requests, each a generator (see `streamlease.flow`)."""
