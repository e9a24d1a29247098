"""The process that owns connections: it claims, dials, delivers, checkpoints and releases."""
