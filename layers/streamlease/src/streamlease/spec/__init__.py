"""The library's edge to people: connection specs, validated with pydantic."""
