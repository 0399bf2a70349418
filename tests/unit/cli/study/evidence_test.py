"""The tables of claims in docs/evidence.md and README are those of the committed results."""

import contextlib
import os
import unittest

from study_case import ROOT

import evidence
import readme
import study_file

MEND = "run: buttress study report studies/*.yaml --out docs/evidence.md --readme README.md"


class EvidenceTest(unittest.TestCase):
    def test_the_tables_are_those_of_the_results(self):
        with contextlib.ExitStack() as stack:
            stack.callback(os.chdir, os.getcwd())
            os.chdir(ROOT)  # the commands in the tables name the files from there
            paths = sorted((ROOT / "studies").glob("*.yaml"))
            studies = [study_file.read_study(path.relative_to(ROOT)) for path in paths]
            found = evidence.Report(studies)
        self.assertEqual((ROOT / "docs/evidence.md").read_text(), found.page(), MEND)
        path = ROOT / "README.md"
        self.assertEqual(readme.between(path, path.read_text()), readme.section(
            evidence.markdown(readme.HEAD, found.readme_rows())), MEND)


if __name__ == "__main__":
    unittest.main()
