"""The texts that `check` and `apply` read: files, folders, standard input. All are read before anything is done."""

import errno
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from streamlease_cli.errors import BadInput
from streamlease_cli.output import some

SUFFIXES = (".yaml", ".yml", ".json")
STDIN = "-"
LARGEST_MIB = 64
"""A text of more is a mistake, such as a disk's image or a pipe without an end; it would take all memory to tell."""


@dataclass(frozen=True, slots=True)
class Source:
    """One text. `name` is how sentences call it; `folder` is what file names in it are relative to."""

    name: str
    text: str
    folder: Path


def read_sources(given: Sequence[str], *, recursive: bool) -> tuple[Source, ...]:
    """Each file once, in the order given, a folder's in the order of their names. Raises BadInput."""
    found: dict[str, Source] = {}
    for word in given:
        for source in _stdin() if word == STDIN else _read(Path(word), recursive=recursive):
            found.setdefault(source.name, source)
    return tuple(found.values())


def read_text(path: Path) -> str:
    """A whole file. Raises OSError (also where it is too large), UnicodeDecodeError."""
    return _bytes(path).decode()


def _stdin() -> Iterator[Source]:
    try:
        content = _content(sys.stdin.buffer)
    except OSError as error:
        raise BadInput(f"standard input cannot be read: {error.strerror or type(error).__name__}") from None
    yield Source("standard input", _decoded("standard input", content), Path.cwd())


def _read(path: Path, *, recursive: bool) -> Iterator[Source]:
    try:
        if not path.is_dir():
            yield Source(str(path), _decoded(str(path), _bytes(path)), path.parent)
            return
        files = sorted(file for file in (path.rglob("*") if recursive else path.iterdir()) if _is_ours(file))
        if not files:
            below = "" if recursive else " (folders in it are read with --recursive)"
            raise BadInput(f"{path} holds no file named {', '.join(f'*{suffix}' for suffix in SUFFIXES)}{below}")
        for file in files:
            yield Source(str(file), _decoded(str(file), _bytes(file)), file.parent)
    except FileNotFoundError:
        beside = sorted(file.name for file in path.parent.glob("*") if _is_ours(file)) if path.parent.is_dir() else []
        there = f"; there is {some(beside)}" if beside else ""
        raise BadInput(f"there is no file or folder {path}{there}") from None
    except OSError as error:
        raise BadInput(f"{error.filename or path} cannot be read: {error.strerror or type(error).__name__}") from None


def _bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        try:
            return _content(file)
        except OSError as error:
            error.filename = str(path)
            raise


def _content(file: BinaryIO) -> bytes:
    """Raises OSError."""
    content = file.read((LARGEST_MIB << 20) + 1)
    if len(content) > LARGEST_MIB << 20:
        raise OSError(errno.EFBIG, f"it is larger than {LARGEST_MIB} MiB; split it")
    return content


def _is_ours(file: Path) -> bool:
    return file.suffix.lower() in SUFFIXES and not file.name.startswith(".") and file.is_file()


def _decoded(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{name} is not UTF-8 text (byte {error.start}): save it as UTF-8") from None
