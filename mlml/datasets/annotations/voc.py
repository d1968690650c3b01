"""Parses an XML file in the format of Pascal VOC: an image and the classes of its objects."""

from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from mlml.core.errors import quoted
from mlml.datasets.files.regular_files import read_file

_LARGEST = 1 << 23  # bytes: 20,000 objects; parsed, it may take forty times that
_FLAGS = {"": False, "0": False, "false": False, "1": True, "true": True}


class Annotation(NamedTuple):
    """A parsed XML file: its image, whether each class has an object that is not difficult, and its faults."""

    filename: str
    objects: dict[str, bool]
    faults: list[str]


def parse(path: Path, classes: Collection[str] | None) -> Annotation:
    """Parse a file.

    Args:
        classes: the names that are allowed; None: all.
    """
    parser = ElementTree.XMLParser(target=_NoDoctype())
    try:
        parser.feed(read_file(path, _LARGEST))
        root = parser.close()
    except (ElementTree.ParseError, ValueError, LookupError) as error:
        return Annotation("", {}, [f"no XML that can be read: {error}"])
    for element in root.iter():  # some tools write <Difficult>, or give the elements a namespace
        element.tag = element.tag.rpartition("}")[2].lower()
    filename = (root.findtext("filename") or "").strip()
    found = root.findall("object")
    faults = [] if filename else ["there is no <filename>"]
    if deeper := len(list(root.iter("object"))) - len(found):
        faults.append(f"objects within other elements, where they are not looked for: {deeper}")
    objects: dict[str, bool] = {}
    for number, one in enumerate(found, 1):
        try:
            name, counts = _object(one, classes)
        except ValueError as error:
            faults.append(f"object {number}{error}")
            continue
        if name:
            objects[name] = objects.get(name, False) or counts
    return Annotation(filename, objects, faults)


def _object(one: ElementTree.Element, classes: Collection[str] | None) -> tuple[str, bool]:
    """The class of an object, or "" if LabelMe has deleted it, and whether it is not difficult.

    Raises:
        ValueError: the file does not say so; the message follows "object 1".
    """
    names = [(name.text or "").strip() for name in one.findall("name")]
    flags = {key: (one.findtext(key) or "").strip() for key in ("difficult", "deleted")}
    for key, flag in flags.items():
        if flag.lower() not in _FLAGS:
            raise ValueError(f": <{key}> is {quoted(flag)}, not 0 or 1")
    if _FLAGS[flags["deleted"].lower()]:
        return "", False
    if len(names) != 1 or not names[0]:
        raise ValueError(f" has {'several' if len(names) > 1 else 'no'} <name>")
    if classes is not None and names[0] not in classes:
        raise ValueError(f": class {quoted(names[0])} is not in images.options.classes")
    return names[0], not _FLAGS[flags["difficult"].lower()]


class _NoDoctype(ElementTree.TreeBuilder):
    """Refuses a document type: its entities may fill the memory, and these files need none."""

    def doctype(self, name: str, pubid: str, system: str) -> None:
        raise ValueError("it has a DOCTYPE, which is not read; remove it")
