"""Every *_test.cc stands in a CMakeLists.txt above it: a test that is not built is not a test."""
from sources import ROOT, finish, sources


def is_listed(test):
    """Returns whether the CMakeLists.txt of a folder above `test` names it by its relative path."""
    return any((folder / "CMakeLists.txt").is_file()
               and str(test.relative_to(folder)) in
               (folder / "CMakeLists.txt").read_text().replace(")", " ").split()
               for folder in test.parents)


problems = [f"{path} is in no CMakeLists.txt" for path in sources(("tests",), ("_test.cc",))
            if not is_listed(ROOT / path)]
finish(problems, "every test is built")
