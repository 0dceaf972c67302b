"""Cleaning text while remembering where every character came from."""

from __future__ import annotations

from collections.abc import Callable


class CharacterFilter(dict[int, int | None]):
    """A table for `str.translate` that drops characters; each is judged once, when first met."""

    def __init__(self, drop: Callable[[str], bool]) -> None:
        super().__init__()
        self._drop = drop

    def __missing__(self, code: int) -> int | None:
        self[code] = None if self._drop(chr(code)) else code
        return self[code]


class Spans:
    """Where in the caller's text each character of the normalised text starts and ends.

    To normalise may drop a character, replace it or widen it to several ("ﬁ" to "fi"), which then
    share its place. A dropped one (an accent, a control character) belongs to the one before it,
    so that a slice of the caller's text keeps it.
    """

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.ends: list[int] = []

    def add(self, place: int, text: str, normalise: Callable[[str], str]) -> None:
        """Of `text`, which stands at `place`."""
        for end, character in enumerate(text, place + 1):
            width = len(normalise(character))
            self.starts += [end - 1] * width
            self.ends += [end] * width
            if self.ends and not width:
                self.ends[-1] = end

    def add_unchanged(self, start: int, end: int) -> None:
        """Of characters that stay as many as they are."""
        self.starts += range(start, end)
        self.ends += range(start + 1, end + 1)

    def add_one(self, start: int, end: int) -> None:
        """Of characters that become one, such as white space."""
        self.starts.append(start)
        self.ends.append(end)
