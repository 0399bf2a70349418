"""deploy/cuda_selftest.py, with libraries and a driver that the C compiler makes here."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SELFTEST = ROOT / "deploy/cuda_selftest.py"
DRIVER = ROOT / "tests/support/fakes/fake_cuda_driver.cc"
LIBRARIES = ("libtorch_cuda.so", "libtorch_cuda_linalg.so", "libcaffe2_nvrtc.so")


def compile_library(path, *arguments):
    subprocess.run(["c++", "-shared", "-fPIC", "-o", path, *arguments], check=True)


class CudaSelftest(unittest.TestCase):

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        empty = self.folder / "empty.cc"
        empty.write_text("int empty;\n")
        torch = self.folder / "torch/lib"
        torch.mkdir(parents=True)
        compile_library(torch / "libabsent.so.3", empty, "-Wl,-soname,libabsent.so.3")
        for name in LIBRARIES:
            compile_library(torch / name, empty, "-Wl,--no-as-needed", torch / "libabsent.so.3",
                            "-Wl,-rpath,$ORIGIN")
        self.absent = torch / "libabsent.so.3"
        self.nvcc = self.folder / "nvcc"
        self.write_nvcc("exit 0")
        driver = self.folder / "driver"
        driver.mkdir()
        compile_library(driver / "libcuda.so.1", DRIVER)
        self.driver = driver

    def write_nvcc(self, script):
        self.nvcc.write_text("#!/bin/sh\n" + script + "\n")
        self.nvcc.chmod(0o755)

    def run_it(self, **environment):
        done = subprocess.run(
            [sys.executable, SELFTEST, self.folder / "torch", self.nvcc],
            env={**os.environ, "LD_LIBRARY_PATH": str(self.driver), **environment},
            capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_all_is_there(self):
        code, text = self.run_it()
        self.assertEqual(code, 0, text)
        self.assertIn("CUDA libraries: LibTorch opens them", text)
        self.assertIn("compiles", text)
        self.assertIn("GPU 0: Fake A, 80 GiB", text)
        self.assertIn("GPU 1: Fake B, 80 GiB", text)

    def test_a_missing_library_is_named(self):
        self.absent.unlink()
        code, text = self.run_it()
        self.assertEqual(code, 1, text)
        self.assertIn("CUDA libraries: missing: libabsent.so.3; LibTorch looks for them in", text)

    def test_a_compiler_that_fails_is_named_with_its_error(self):
        self.write_nvcc("echo no ptxas >&2; exit 3")
        code, text = self.run_it()
        self.assertEqual(code, 1, text)
        self.assertIn(f"CUDA compiler: {self.nvcc} fails: no ptxas", text)

    def test_a_missing_gpu_is_no_failure(self):
        code, text = self.run_it(FAKE_GPUS_FAIL="1")
        self.assertEqual(code, 0, text)
        self.assertIn("GPU none: the driver says: no CUDA-capable device is detected", text)
        code, text = self.run_it(FAKE_GPUS="0")
        self.assertEqual(code, 0, text)
        self.assertIn("GPU none: the driver sees no GPU; check CUDA_VISIBLE_DEVICES", text)


class WheelLists(unittest.TestCase):

    def test_every_wheel_is_pinned_once(self):
        names = []
        for path in sorted((ROOT / "deploy").glob("wheels*.txt")):
            for line in path.read_text().splitlines():
                if line and not line.startswith("#"):
                    self.assertRegex(line, r"^[a-z0-9-]+==[0-9.]+ --hash=sha256:[0-9a-f]{64}$")
                    names.append(line.split("==")[0])
        self.assertGreater(len(names), 12)
        self.assertEqual(len(names), len(set(names)))

    def test_setup_refuses_an_argument_that_it_does_not_know(self):
        done = subprocess.run([ROOT / "deploy/setup.sh", "--cud"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 3)
        self.assertIn("unknown argument '--cud'; expected --cuda", done.stderr)


if __name__ == "__main__":
    unittest.main()
