"""Adapters that come with the library; docs/adapters.md tells how to write one."""
