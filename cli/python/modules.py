"""Runs a Python program of several modules, whose texts `buttress` holds.

modules.py TEXTS ARGUMENT...   TEXTS: each module begins with a form feed and a line with its name.

Calls main.main(ARGUMENT...) and ends with the status that it returns.
"""

import importlib.abc
import importlib.util
import sys


class Held(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    def __init__(self, texts):
        self.texts = dict(text.split("\n", 1) for text in texts.split("\f")[1:])

    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self) if name in self.texts else None

    def get_source(self, name):
        return self.texts[name]


sys.meta_path.insert(0, Held(sys.argv[1]))
main = importlib.import_module("main")
sys.exit(main.main(*sys.argv[2:]))
