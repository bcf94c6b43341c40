"""A reader of text that is slow and literal: what the fast one is compared with."""

import csv
import io
from typing import Any

from timeplex.errors import InputError
from timeplex.kb.readers.table import Columns, find_layout


class SlowReader:
    """Line by line, by the letter of the rules of `readers.text`, with what Python has."""

    def __init__(self, data: bytes, separator: str, quoting: bool) -> None:
        data = data.removeprefix(b"\xef\xbb\xbf")
        self.lines = data.split(b"\n" if b"\n" in data else b"\r")
        if self.lines[-1] == b"":
            self.lines.pop()
        self.separator, self.quoting = separator, quoting

    def text(self, first: int, last: int) -> str | None:
        """The lines as text without the last line's end, or None if they are none."""
        data = b"\n".join(self.lines[first : last + 1]).removesuffix(b"\r")
        try:
            return None if b"\0" in data else data.decode()
        except UnicodeDecodeError:
            return None

    def split(self, text: str | None) -> list[str] | None:
        if text is None or not self.quoting or '"' not in text:
            return None if text is None else text.split(self.separator)
        try:
            rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=self.separator, strict=True))
        except csv.Error:
            return None
        return rows[0] if len(rows) == 1 else None

    def record(self, first: int, width: int | None) -> tuple[list[str] | None, int]:
        """The fields of the record that begins at a line (None: it is bad), and its last line."""
        text = self.text(first, first)
        fields = self.split(text)
        if text is not None and fields is None:
            quotes = 0
            for last in range(first, len(self.lines)):
                quotes += self.lines[last].count(b'"')
                if quotes % 2 == 0:
                    longer = self.split(self.text(first, last)) if last > first else None
                    if longer is not None and width in (None, len(longer)):
                        return longer, last
                    break
            fields = text.split(self.separator)
        return fields if fields is None or width in (None, len(fields)) else None, first

    def read(self) -> tuple[list[tuple[Any, ...]], list[int]]:
        """(line, fields by role) of each row, and the lines that are bad."""
        rows: list[tuple[Any, ...]] = []
        bad: list[int] = []
        layout, line = None, 0
        while line < len(self.lines):
            if self.lines[line].removesuffix(b"\r") == b"":
                line += 1
                continue
            if layout is None:
                head, last = self.record(line, None)
                if head is None or b"\0" in b"\n".join(self.lines)[:4096]:
                    raise InputError("The first line is not text, or nothing is.")
                layout, has_header = find_layout(head, Columns(), "file")
                if has_header:
                    line = last + 1
                    continue
            fields, last = self.record(line, len(head))
            if fields is None:
                bad.append(line + 1)
            else:
                rows.append((line + 1, *(fields[at] for at in layout.positions)))
            line = last + 1
        return rows, bad
