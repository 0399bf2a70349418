"""deploy/sbom.py: a valid SPDX 2.3 document that names every part, and errors that name the row."""
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEBIAN = ("libc6\t2.36-9+deb12u14\tamd64\tglibc\n"
          "libgrpc++1.51\t1.51.1-3+b1\tamd64\tgrpc\n"
          "openssh-server\t1:9.2p1-2+deb12u10\tamd64\topenssh\n")
# The properties that the SPDX 2.3 schema requires of a document and of a package.
DOCUMENT = {"spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo"}
PACKAGE = {"SPDXID", "name", "downloadLocation"}


class Sbom(unittest.TestCase):

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def write(self, debian, wheels=ROOT / "deploy/wheels.txt"):
        rows = self.folder / "debian.tsv"
        rows.write_text(debian)
        out = self.folder / "sbom.json"
        done = subprocess.run(
            [sys.executable, "-B", ROOT / "deploy/sbom.py", "--name", "image", "--version", "1.2",
             "--revision", "abc", "--debian", rows, "--wheels", wheels, "--out", out],
            capture_output=True, text=True, check=False)
        return done, json.loads(out.read_text()) if done.returncode == 0 else None

    def test_document_has_what_spdx_requires(self):
        _, document = self.write(DEBIAN)
        self.assertLessEqual(DOCUMENT, document.keys())
        self.assertEqual(document["spdxVersion"], "SPDX-2.3")
        self.assertRegex(document["creationInfo"]["created"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertRegex(document["documentNamespace"], r"^https://[^#]+$")
        ids = ["SPDXRef-DOCUMENT"] + [part["SPDXID"] for part in document["packages"]]
        self.assertEqual(len(ids), len(set(ids)))
        for part in document["packages"]:
            self.assertLessEqual(PACKAGE, part.keys())
            self.assertRegex(part["SPDXID"], r"^SPDXRef-[A-Za-z0-9.-]+$")
            self.assertRegex(part["externalRefs"][0]["referenceLocator"],
                             r"^pkg:(deb/debian|pypi|generic)/[\w.%+-]+@[\w.%~+-]+(\?[\w=&-]+)?$")
        for relation in document["relationships"]:
            self.assertIn(relation["spdxElementId"], ids)
            self.assertIn(relation["relatedSpdxElement"], ids)
        self.assertEqual(len(document["relationships"]), len(document["packages"]))

    def test_every_package_and_wheel_is_named_with_its_version(self):
        _, document = self.write(DEBIAN)
        named = {part["name"]: part for part in document["packages"]}
        self.assertEqual(named["libgrpc++1.51"]["versionInfo"], "1.51.1-3+b1")
        self.assertIn("openssh", named["openssh-server"]["sourceInfo"])
        pins = re.findall(r"^(\S+)==(\S+) --hash=sha256:(\S+)$",
                          (ROOT / "deploy/wheels.txt").read_text(), re.MULTILINE)
        self.assertTrue(pins)
        for name, version, digest in pins:
            self.assertEqual(named[name]["versionInfo"], version)
            self.assertEqual(named[name]["checksums"][0]["checksumValue"], digest)
        self.assertEqual(len(named), 1 + 3 + len(pins))

    def test_bad_rows_are_errors_that_name_them(self):
        done, _ = self.write(DEBIAN + "no tabs here\n")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("line 4 of the packages is 'no tabs here'", done.stderr)
        unpinned = self.folder / "wheels.txt"
        unpinned.write_text("torch==2.11.0\n")
        done, _ = self.write(DEBIAN, unpinned)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("wheels.txt:1: 'torch==2.11.0'", done.stderr)


if __name__ == "__main__":
    unittest.main()
