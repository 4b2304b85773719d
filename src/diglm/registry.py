"""Names for interchangeable parts: heads, recipes, encoders, terms, scores, rules."""

import difflib
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

Part = TypeVar("Part")


class Registry(Mapping[str, Part], Generic[Part]):
    """Parts by name. `registry["name"] = part` adds one; an unknown name says which there are.

    Args:
        what: what the parts are, for error messages: "head", "score".
        parts: those that come with diglm.
    """

    def __init__(self, what: str, parts: dict[str, Part] | None = None):
        self.what, self._parts = what, dict(parts or {})

    def __getitem__(self, name: str) -> Part:
        try:
            return self._parts[name]
        except (KeyError, TypeError):
            raise ValueError(self.unknown(name)) from None

    def __setitem__(self, name: str, part: Part) -> None:
        self._parts[name] = part

    def __delitem__(self, name: str) -> None:
        del self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._parts

    def unknown(self, name: object) -> str:
        """What to say of a name that nothing has."""
        close = difflib.get_close_matches(str(name), self._parts, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        article = "an" if self.what[0] in "aeiou" else "a"
        return f"Expected {article} {self.what} among {sorted(self._parts)}; got {name!r}.{hint}"
