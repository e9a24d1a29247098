"""Keeps fleets of outbound WebSocket connections alive: who owns what, decided purely and written conditionally."""
