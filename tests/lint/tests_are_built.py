"""Every *_test.cc stands in the nearest CMakeLists.txt above it: a test that is not built is not a test."""
from sources import ROOT, finish, sources

problems = []
for path in sources(("tests",), ("_test.cc",)):
    test = ROOT / path
    listing = next((folder / "CMakeLists.txt" for folder in test.parents if (folder / "CMakeLists.txt").is_file()))
    if str(test.relative_to(listing.parent)) not in listing.read_text().split():
        problems.append(f"{path} is not in {listing.relative_to(ROOT)}")
finish(problems, "every test is built")
