"""What the programs need of a system: linkage_test.py PROGRAMS, the folder of the built programs.

The image must install the packages of every library that the programs load, and the release must
start on Ubuntu 22.04, whose glibc is 2.35 and whose libstdc++ has GLIBCXX_3.4.30.
"""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = pathlib.Path(sys.argv.pop())
NAMES = ("coordinator", "rollout_worker", "learner", "buttress")
ARROW = "libbuttress_arrow.so"  # opened at run time; built where deploy/setup.sh fetched Arrow
NEWEST = {"GLIBC": (2, 35), "GLIBCXX": (3, 4, 30)}
# Every system has these, and the release leaves them to it.
ESSENTIAL = {"libc.so.6", "libm.so.6", "libstdc++.so.6", "libgcc_s.so.1"}
# openmpi-bin depends on it; the release has another Open MPI.
MPI = "libmpi.so.40"


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def symbol_versions(path):
    """(family, version) of each versioned symbol that the file needs or has."""
    table = output("objdump", "-T", str(path))
    return {(family, tuple(int(part) for part in version.split(".")))
            for family, version in re.findall(r"\b(GLIBC|GLIBCXX)_([0-9.]+)", table)}


def too_new(path):
    return {f"{family}_{'.'.join(map(str, version))}" for family, version in symbol_versions(path)
            if version > NEWEST[family]}


def named_libraries():
    """{name: path} of the system's libraries that the programs name themselves."""
    named = {}
    for program in NAMES:
        needed = re.findall(r"NEEDED.*\[(.*)\]", output("readelf", "-d", str(PROGRAMS / program)))
        found = re.findall(r"^\s*(\S+) => (/(?:usr/)?lib\S+)",
                           output("ldd", str(PROGRAMS / program)), re.MULTILINE)
        named |= {name: path for name, path in found if name in needed}
    return {name: path for name, path in named.items() if name not in ESSENTIAL | {MPI}}


class Linkage(unittest.TestCase):

    def test_no_symbol_is_newer_than_ubuntu_22_04_has(self):
        arrow = (ARROW,) if (PROGRAMS / ARROW).exists() else ()
        for name in NAMES + arrow:
            with self.subTest(name):
                self.assertTrue(symbol_versions(PROGRAMS / name))
                self.assertEqual(too_new(PROGRAMS / name), set())

    def test_no_bundled_library_is_newer_than_ubuntu_22_04_has(self):
        libraries = named_libraries()
        self.assertIn("libgrpc++.so.1.51", libraries)
        for path in libraries.values():
            with self.subTest(path):
                self.assertEqual(too_new(path), set())

    def test_the_image_installs_every_library_that_the_programs_name(self):
        listed = {line.partition("=")[0]
                  for line in (ROOT / "deploy/image-packages.txt").read_text().splitlines()
                  if line and not line.startswith("#")}
        # A package may name /lib where the system has /usr/lib.
        patterns = [f"*/x86_64-linux-gnu/{pathlib.Path(path).resolve().name}"
                    for path in named_libraries().values()]
        owners = {line.partition(":")[0]
                  for line in output("dpkg", "-S", *patterns).splitlines()}
        self.assertEqual(owners - listed, set())

    def test_every_package_of_the_image_is_pinned(self):
        for line in (ROOT / "deploy/image-packages.txt").read_text().splitlines():
            if line and not line.startswith("#"):
                self.assertRegex(line, r"^[a-z0-9.+-]+=[\w.+:~-]+$")


if __name__ == "__main__":
    unittest.main()
