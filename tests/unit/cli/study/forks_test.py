"""`buttress study` with arms that begin with a checkpoint of another arm's run."""

import json
import unittest

import fake_build
from study_case import STUDY, StudyCase, without_time

FORK = {"from": {"arm": "plain", "step": 12}, "run.gain": 0.1}
ARMS = {"plain": STUDY["arms"]["plain"], "other": FORK}


class ForksTest(StudyCase):
    def result(self, arm, seed=1):
        path = self.folder / f"toy/results/easy/{arm}.jsonl"
        return json.loads(path.read_text().splitlines()[seed - 1])

    def test_a_fork_has_the_curve_of_its_parent_up_to_its_step(self):
        path = self.write(arms=ARMS)
        status, out, errors = self.run_study(path)
        self.assertEqual(status, 0, out + errors)
        self.assertIn("study: 6 of 6: ", out)  # a fork is not tuned: it has the value of its parent
        for seed in (1, 2):
            parent, fork = self.result("plain", seed), self.result("other", seed)
            self.assertEqual(fork["from"], {"arm": "plain", "step": 12})
            self.assertEqual(fork["settings"], {**parent["settings"], "run.gain": 0.1})
            before, after = parent["curve"]["accuracy"], fork["curve"]["accuracy"]
            self.assertEqual(after[:6], before[:6])
            for one, other in zip(before[6:], after[6:]):
                self.assertAlmostEqual(other - one, 0.1, delta=1e-5)
            self.assertEqual(fork["endpoints"]["tokens"], 2000)
        self.assertEqual(list((self.folder / "work-toy/stems").iterdir()), [])

    def test_a_parent_that_is_gone_is_made_again(self):
        path = self.write(arms=ARMS)
        self.run_study(path)
        before = without_time(self.folder)
        (self.folder / "toy/results/easy/other.jsonl").unlink()
        self.assertEqual(self.run_study(path, "--keep-runs")[0], 0)
        self.assertEqual(without_time(self.folder), before)
        kept = {run.name for run in (self.folder / "work-toy/runs").iterdir()}
        self.assertEqual(kept, {f"easy-{arm}-seed-{seed}" for arm in ARMS for seed in (1, 2)})

    def test_another_build_repeats_forks_too(self):
        path = self.write(arms=ARMS)
        self.run_study(path)
        (self.build / "learner").write_text("another")
        status, out, _ = self.run_study(self.write(arms=ARMS, seeds={"tuning": 1, "fresh": 3}))
        self.assertEqual((status, out.count(": the same\n")), (0, 2))
        fake_build.write_build(self.build, bias=1e-4)
        (self.build / "learner").write_text("a third")
        self.assertEqual(self.run_study(path)[0], 2)

    def test_forks_that_cannot_be_are_refused(self):
        for fork, expected in (
            ({"arm": "third", "step": 4}, "arms.other.from.arm: 'third' is none of other, plain"),
            ({"arm": "other", "step": 4}, "arms.other.from: expected an arm that is no fork"),
            ({"arm": "plain", "step": 0}, "and a step of 1 or more"),
            ({"arm": "plain", "step": 20}, "from.step: expected less than run.steps, 20"),
            ({"arm": "plain"}, "arms.other.from.step: is missing"),
        ):
            with self.subTest(expected):
                status, _, errors = self.run_study(self.write(arms={**ARMS, "other": {
                    **FORK, "from": fork}}))
                self.assertEqual(status, 2)
                self.assertIn(expected, errors)


if __name__ == "__main__":
    unittest.main()
