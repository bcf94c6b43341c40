"""A disk that forgets: what may be left of a folder if the power fails after some steps of a command.

Only what was synced is sure: the content of a file by its fsync, the names in a folder by the folder's. Everything else
may be there or not; these are the extremes.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.durability.shim import Step

Tree = dict[str, bytes | None]
"""Path → content, None for a folder."""

FATES = {"kept": (False, False), "names lost": (True, False), "data lost": (False, True), "all lost": (True, True)}
"""By name: whether unsynced names, and whether unsynced content, are lost."""


@dataclass(eq=False)
class File:
    data: bytes = b""
    safe: bytes = b""


@dataclass(eq=False)
class Folder:
    names: "dict[str, File | Folder]" = field(default_factory=dict)
    safe: "dict[str, File | Folder]" = field(default_factory=dict)


class Disk:
    """Goes through the steps of a command, on a copy in memory of the folder in which it ran."""

    def __init__(self, before: Tree, place: Path) -> None:
        self.place = str(place)
        self.root = Folder()
        self.open: dict[int, File | Folder] = {}
        for path, data in sorted(before.items()):
            parent, name = self._find(f"{self.place}/{path}")
            node = Folder() if data is None else File(data, data)
            parent.names[name] = parent.safe[name] = node

    def do(self, step: Step) -> None:
        """Do a step that was recorded."""
        match step:
            case ("opened", path, number):
                self.open[number] = self._node(path)
            case ("create", path, number):
                parent, name = self._find(path)
                self.open[number] = parent.names.setdefault(name, File())
            case ("mkdir", path):
                parent, name = self._find(path)
                parent.names[name] = Folder()
            case ("write", number, data):
                file = self.open[number]
                assert isinstance(file, File)
                file.data += data
            case ("fsync", number):
                node = self.open[number]
                node.safe = node.data if isinstance(node, File) else dict(node.names)  # type: ignore[assignment]
            case ("rename", one, other):
                parent, name = self._find(one)
                node = parent.names.pop(name)
                parent, name = self._find(other)
                parent.names[name] = node
            case ("exchange", one, other):
                (first, mine), (second, theirs) = self._find(one), self._find(other)
                first.names[mine], second.names[theirs] = second.names[theirs], first.names[mine]
            case ("unlink" | "rmdir", path):
                parent, name = self._find(path)
                del parent.names[name]
            case _:
                raise AssertionError(step)

    def after(self, fate: str) -> Tree:
        """What is found after a failure of the power."""
        return dict(self._walk(self.root, "", *FATES[fate]))

    def _walk(
        self, folder: Folder, prefix: str, names_lost: bool, data_lost: bool
    ) -> Iterator[tuple[str, bytes | None]]:
        for name, node in (folder.safe if names_lost else folder.names).items():
            if isinstance(node, File):
                yield prefix + name, node.safe if data_lost else node.data
            else:
                yield prefix + name, None
                yield from self._walk(node, f"{prefix}{name}/", names_lost, data_lost)

    def _find(self, path: str) -> tuple[Folder, str]:
        inside = os.path.relpath(path, self.place)
        assert not inside.startswith(".."), f"{path} lies outside"
        *above, name = inside.split("/")
        folder = self.root
        for each in above:
            found = folder.names[each]
            assert isinstance(found, Folder)
            folder = found
        return folder, name

    def _node(self, path: str) -> "File | Folder":
        if path == self.place:
            return self.root
        parent, name = self._find(path)
        return parent.names[name]


def outcomes(before: Tree, place: Path, steps: Sequence[Step]) -> Iterator[tuple[int, str, Tree]]:
    """Every different state of the disk after each of the steps: its number, the fate, what is there."""
    disk, seen = Disk(before, place), set()
    for number, step in enumerate(steps, start=1):
        disk.do(step)
        for fate in FATES:
            tree = disk.after(fate)
            key = frozenset(tree.items())
            if key not in seen:
                seen.add(key)
                yield number, fate, tree


def tree_of(folder: Path) -> Tree:
    """All files and folders below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def write_tree(tree: Tree, folder: Path) -> None:
    """Put them on the real disk."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path, data in sorted(tree.items()):
        if data is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(data)
