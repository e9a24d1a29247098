"""What all parts of a spec have in common: strict, frozen, and without the input in what is said of an error."""

from pydantic import BaseModel, ConfigDict


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, hide_input_in_errors=True)
