"""deploy/gpu_check.sh without a GPU: gpu_check_test.py PROGRAMS, the folder of the real programs.

The checks are the same on a CPU, but for the device; a driver without GPUs and programs that fail
are made here.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHECK = ROOT / "deploy/gpu_check.sh"
DRIVER = ROOT / "tests/support/fakes/fake_cuda_driver.cc"
PROGRAMS = pathlib.Path(sys.argv.pop())


def run_check(*options, **environment):
    """Returns the exit code and {check: (state, text)}."""
    done = subprocess.run([CHECK, *options], env={**os.environ, **environment},
                          capture_output=True, text=True, check=False)
    rows = {}
    for line in done.stdout.splitlines():
        if line.startswith("gpu_check: "):
            rows["sum"] = line
        else:
            state, _, text = line[30:].strip().partition(" ")
            rows[line[:30].strip()] = (state, text.strip())
    return done.returncode, rows, done.stderr


class GpuCheck(unittest.TestCase):

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def programs(self, script):
        """A folder of programs that all run `script`."""
        for name in ("buttress", "learner", "bench_train"):
            program = self.folder / "bin" / name
            program.parent.mkdir(exist_ok=True)
            program.write_text("#!/bin/sh\n" + script + "\n")
            program.chmod(0o755)
        return self.folder / "bin"

    def driver(self):
        subprocess.run(["c++", "-shared", "-fPIC", "-o", self.folder / "libcuda.so.1", DRIVER],
                       check=True)
        return str(self.folder)

    def test_without_a_gpu_every_check_is_skipped_with_the_reason(self):
        code, rows, errors = run_check("--bin", self.programs("exit 1"),
                                       LD_LIBRARY_PATH=self.driver(), FAKE_GPUS_FAIL="1")
        self.assertEqual(code, 77, errors)
        self.assertEqual(rows.pop("sum"), "gpu_check: 0 passed, 0 failed, 10 skipped")
        self.assertEqual(len(rows), 10)
        for name, (state, text) in rows.items():
            self.assertEqual(state, "skipped", name)
            self.assertIn("no CUDA-capable device is detected", text, name)

    def test_a_program_that_fails_fails_its_checks_and_no_others(self):
        code, rows, errors = run_check("--device", "cpu", "--bin",
                                       self.programs("echo the model is broken >&2; exit 4"))
        self.assertEqual(code, 1, errors)
        state, text = rows["log-probs, float32"]
        self.assertEqual(state, "failed")
        self.assertEqual(text, "buttress logprobs: exit code 4: the model is broken")
        self.assertEqual(rows["speed of training"][0], "failed")
        self.assertEqual(rows["NCCL suite, two ranks"], ("skipped", "NCCL needs a GPU"))

    def test_wrong_numbers_fail(self):
        row = '{"id": 0, "logprobs": [-1.0]}'
        code, checked, errors = run_check("--device", "cpu", "--bin",
                                          self.programs(f"echo '{row}'"))
        self.assertEqual(code, 1, errors)
        self.assertEqual(checked["log-probs, float32"][0], "failed")

    def test_a_gpu_on_which_nothing_works_fails_each_check(self):
        programs = self.programs("echo no kernel >&2; exit 3")
        code, rows, errors = run_check("--bin", programs, LD_LIBRARY_PATH=self.driver(),
                                       FAKE_GPUS="1")
        self.assertEqual(code, 1, errors)
        self.assertEqual(rows["CUDA library, GPUs"][0], "failed")
        self.assertIn("no kernel", rows["two ranks next to one"][1])

    def test_on_a_cpu_the_real_programs_pass(self):
        code, rows, errors = run_check("--device", "cpu", "--bin", PROGRAMS)
        self.assertEqual(code, 0, f"{rows} {errors}")
        rows.pop("sum")
        for name, (state, text) in rows.items():
            if name not in ("CUDA library, GPUs", "NCCL suite, two ranks", "speed of training",
                            "speed next to transformers"):
                self.assertEqual(state, "passed", f"{name}: {text}")
        self.assertIn("resumed after an interrupt", rows["run with interrupt and resume"][1])
        if (PROGRAMS / "bench_train").exists():
            self.assertEqual(rows["speed of training"][0], "passed", rows["speed of training"][1])
            self.assertIn("tok/s", rows["speed of training"][1])


if __name__ == "__main__":
    unittest.main()
