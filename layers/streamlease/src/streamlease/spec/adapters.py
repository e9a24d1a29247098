"""`adapter`: which one a connection has, and where it comes from: the entry-point group `streamlease.adapters`."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Annotated, Any, Final, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from streamlease.feed.adapter import VERSION, Adapting, Factory
from streamlease.spec.fields import Duration, Name, Template
from streamlease.spec.part import Part
from streamlease.spec.placeholders import NAME, RESERVED, normal
from streamlease.spec.units import seconds
from streamlease.write import Value

GROUP: Final = "streamlease.adapters"
LONGEST_BUDGET_S: Final = 1.0


class Adapter(Part):
    name: Name
    options: dict[str, Template] = Field(default_factory=dict, description="Its own; may hold references to secrets")
    keeps: list[Name] = Field(default_factory=list, description="The names that it gives values to, for templates")
    budget: Duration = Field("50ms", description="What one call of it may take")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        problem = self._problem()
        if problem is not None:
            raise PydanticCustomError("rule", "{problem}", {"problem": problem})
        return self

    def _problem(self) -> str | None:
        for name in self.keeps:
            if NAME.fullmatch(f"{{{name}}}") is None or name in RESERVED:
                return f"adapter.keeps has {name!r}; a name is letters, digits and _, and means nothing else already"
        if seconds(self.budget) > LONGEST_BUDGET_S:
            return f"adapter.budget is {self.budget}; it must be at most {LONGEST_BUDGET_S:g}s"
        factory, _ = installed(self.name)
        if factory is None:
            return None  # where it is needed, not where it is written, it has to be installed
        try:
            factory(_normal(self.options, lambda text: normal(text, "x")))
        except ValueError as error:
            return f"adapter.options {error}"
        except Exception as error:  # noqa: BLE001  # an adapter's own code
            return f"adapter {self.name} cannot be made with these options ({type(error).__name__})"
        return None


def _named(value: object) -> object:
    return {"name": value} if isinstance(value, str) else value


type AdapterField = Annotated[Adapter, BeforeValidator(_named)]


@lru_cache(64)
def installed(name: str) -> tuple[Factory | None, str]:
    """The adapter of this name; or None, and a sentence about why there is none."""
    found = entry_points(group=GROUP)
    chosen = next(iter(found.select(name=name)), None)
    if chosen is None:
        names = ", ".join(sorted(found.names)) or "none"
        return None, f"the adapter {name} is not installed on this worker; installed are {names}"
    try:
        factory = chosen.load()
    except Exception as error:  # noqa: BLE001  # whatever its module does at import
        return None, f"the adapter {name} cannot be imported ({type(error).__name__})"
    version = getattr(factory, "version", None)
    if not callable(factory) or version != VERSION:
        return None, f"the adapter {name} is written for version {version} of the port, and this release has {VERSION}"
    return factory, ""


def adapting(adapter: Adapter, template: Callable[[Value], Value]) -> Adapting:
    factory, problem = installed(adapter.name)
    options = template(adapter.options)
    return Adapting(
        name=adapter.name,
        options=options if isinstance(options, Mapping) else {},
        factory=factory,
        problem=problem,
        keeps=tuple(adapter.keeps),
        budget_s=seconds(adapter.budget),
    )


def _normal(value: Any, write: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return write(value)
    if isinstance(value, dict):
        return {name: _normal(entry, write) for name, entry in value.items()}
    return [_normal(entry, write) for entry in value] if isinstance(value, list) else value
