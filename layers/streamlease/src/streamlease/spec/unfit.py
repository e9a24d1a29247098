"""What a check of a value raises."""


class Unfit(ValueError):
    """A value that a spec cannot hold. Its text follows a field's name: what the value is, and what would be right."""
