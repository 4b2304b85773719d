"""Settings on a command line: `--weights 1 0.1` replaces the field `weights` of a dataclass."""

import argparse
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, NoReturn, TypeVar

Settings = TypeVar("Settings")
SCALARS = (bool, int, float, str)


class _Flags(argparse.ArgumentParser):
    """Says what is wrong by an exception."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def changed(settings: Settings, words: Sequence[str]) -> Settings:
    """The settings with what the words say; a `ValueError` tells what cannot be."""
    parser = _Flags(add_help=False, allow_abbrev=False)
    for name, default in open_to_change(settings).items():
        several = isinstance(default, tuple)
        kind = _kind(default[0] if several else default)
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, dest=name, type=kind, nargs="+" if several else None)
    given = {k: v for k, v in vars(parser.parse_args(list(words))).items() if v is not None}
    as_tuples = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
    return replace(settings, **as_tuples)  # type: ignore


def open_to_change(settings: Any) -> dict[str, Any]:
    """Fields that a flag can name, numbers and words or some of them, with their values."""
    found = {field.name: getattr(settings, field.name) for field in fields(settings)}
    return {name: value for name, value in found.items() if _is_plain(value)}


def as_words(settings: Any) -> str:
    """The flags that stand for these settings."""
    words = []
    for name, value in open_to_change(settings).items():
        values = value if isinstance(value, tuple) else (value,)
        words.append(f"--{name.replace('_', '-')} {' '.join(str(one) for one in values)}")
    return " ".join(words)


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return bool(value) and all(isinstance(one, SCALARS) for one in value)
    return isinstance(value, SCALARS)


def _kind(value: Any) -> Any:
    return _truth if isinstance(value, bool) else type(value)


def _truth(word: str) -> bool:
    if word.lower() not in ("true", "false"):
        raise ValueError(word)
    return word.lower() == "true"
