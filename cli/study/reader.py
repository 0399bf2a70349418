"""Reads the YAML of a study; every error names the place."""

import re

import yaml

from failure import Failure

NAME = re.compile(r"[A-Za-z0-9_-]+")


class Reader:
    """Reads a mapping of the file; every error names the place."""

    def __init__(self, path, where, value):
        self.path, self.where = path, where
        if not isinstance(value, dict):
            self.fail("", f"expected a mapping, found {value!r}")
        self.left = dict(value)

    def fail(self, key, text):
        place = ".".join(part for part in (self.where, key) if part)
        raise Failure(f"{self.path}: {place or 'the file'}: {text}")

    def take(self, key, kind, default=None):
        if key not in self.left:
            if default is None:
                self.fail(key, "is missing; docs/studies.md describes it")
            return default
        value = self.left.pop(key)
        if kind is float:
            try:
                return float(value)
            except (TypeError, ValueError):
                self.fail(key, f"expected a number, found {value!r}")
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.fail(key, f"expected {kind.__name__}, found {value!r}")
        return value

    def choice(self, key, names, default=None):
        value = self.take(key, str, default)
        if value not in names:
            self.fail(key, f"{value!r} is none of {', '.join(names)}")
        return value

    def end(self):
        for key in self.left:
            self.fail(str(key), "is no key of a study; docs/studies.md has them all")


def named(reader, key):
    """A mapping whose keys become names of folders and files."""
    value = reader.take(key, dict)
    for name in value:
        if not NAME.fullmatch(str(name)):
            reader.fail(key, f"{name!r} is no name; use letters, digits, - and _")
    if not value:
        reader.fail(key, "is empty")
    return {str(name): inner for name, inner in value.items()}


def read_tree(path):
    try:
        return yaml.safe_load(path.read_text())
    except OSError as error:
        raise Failure(f"{path}: cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise Failure(f"{path}: no YAML: {error}") from error
