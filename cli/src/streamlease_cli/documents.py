"""Files as connections to be: read, parsed and validated as a whole, before anything is done with any of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from streamlease.model import DesiredState
from streamlease.spec import BadSpec, ConnectionSpec, load, parse
from streamlease_cli.errors import BadInput, sentence
from streamlease_cli.output import clean, count, note
from streamlease_cli.parsing import documents
from streamlease_cli.sources import Source, read_sources, read_text
from streamlease_cli.wanted import Wanted
from streamlease_worker.feeds import SINKS

MOST_SHOWN = 50


@dataclass(frozen=True, slots=True)
class Loaded:
    """What the files hold, in their order; where anything is wrong, the whole is not to be used."""

    specs: tuple[tuple[ConnectionSpec, str], ...]
    """Each with what its document is called."""
    problems: tuple[str, ...]


def read_specs(paths: Sequence[str], *, recursive: bool) -> Loaded:
    """A file or folder that cannot be read is a problem like any other."""
    specs: dict[str, tuple[ConnectionSpec, str]] = {}
    sources, unread = read_sources(paths, recursive=recursive)
    problems = list(unread)
    for source in sources:
        try:
            for where, document in documents(source):
                _add(specs, problems, where, _specs(where, document, source))
        except BadInput as error:
            problems.append(sentence(error))
        except BadSpec as error:
            problems.extend(str(problem) for problem in error.problems)
    return Loaded(tuple(specs.values()), tuple(problems))


def load_or_refuse(paths: Sequence[str], *, recursive: bool) -> tuple[Wanted, ...]:
    """Raises BadInput, after everything that is wrong was told of."""
    loaded = read_specs(paths, recursive=recursive)
    if not loaded.problems:
        return tuple(wanted(spec, where) for spec, where in loaded.specs)
    if len(loaded.problems) == 1:
        raise BadInput(f"{clean(loaded.problems[0])}; nothing was done")
    for problem in loaded.problems[:MOST_SHOWN]:
        note(clean(problem))
    more = len(loaded.problems) - MOST_SHOWN
    raise BadInput(
        f"{count(len(loaded.problems), 'problem')} in the files"
        + (f", of which {more:,} are not shown" if more > 0 else "")
        + "; nothing was done"
    )


def of_fields(fields: dict[str, Any]) -> Wanted:
    """One connection from flags. Raises BadInput."""
    try:
        return wanted(parse(fields), "")
    except BadSpec as error:
        raise BadInput("; ".join(problem.sentence for problem in error.problems)) from None


def wanted(spec: ConnectionSpec, source: str) -> Wanted:
    says_state = "desired_state" in spec.model_fields_set
    return Wanted(
        connection_id=spec.id,
        upstream_url=spec.url,
        spec=spec.stored(),
        labels=dict(spec.labels),
        desired_state=DesiredState(spec.desired_state) if says_state else None,
        source=source,
    )


def _specs(where: str, document: object, source: Source) -> tuple[ConnectionSpec, ...]:
    def read_file(_: str, path: str) -> str:
        return read_text(source.folder / Path(path))

    return load([(where, document)], read_file)


def _add(
    specs: dict[str, tuple[ConnectionSpec, str]], problems: list[str], where: str, found: Sequence[ConnectionSpec]
) -> None:
    for spec in found:
        if spec.sink not in SINKS:
            problems.append(
                f"{where}: connection {spec.id!r}: sink is {spec.sink!r}, and workers have only"
                f" {', '.join(sorted(SINKS))}: leave the field out (Kinesis or a file is said to the workers)"
            )
        if spec.id in specs:
            problems.append(f"{where}: connection {spec.id!r} is in {specs[spec.id][1]}, too: keep one of them")
        else:
            specs[spec.id] = spec, where
