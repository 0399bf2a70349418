"""Every *_test.cc stands in the CMakeLists.txt of its folder: a test that is not built is not a test."""
import pathlib

from sources import ROOT, finish, sources

problems = []
for path in sources(("tests",), ("_test.cc",)):
    listing = (ROOT / path).parent / "CMakeLists.txt"
    if not listing.is_file() or pathlib.Path(path).name not in listing.read_text():
        problems.append(f"{path} is in no CMakeLists.txt")
finish(problems, "every test is built")
