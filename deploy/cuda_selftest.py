#!/usr/bin/env python3
"""Tests what `deploy/setup.sh --cuda` installed: python3 cuda_selftest.py TORCH_FOLDER NVCC

Opens the CUDA part of LibTorch with the flags that the programs use, compiles a kernel, and names
the GPUs. Exits with 0 if nothing but a driver or a GPU is missing, because images are built on
machines without them; with 1 if a library or the compiler is missing.
"""
import ctypes
import os
import re
import subprocess
import sys
import tempfile

OLDEST_DRIVER = 13000  # of CUDA 13.0, which LibTorch is built for
# libcaffe2_nvrtc and libtorch_cuda_linalg are opened when they are first used.
OPENED = ("libtorch_cuda.so", "libtorch_cuda_linalg.so", "libcaffe2_nvrtc.so")
OF_THE_DRIVER = ("libcuda.so.1", "libnvidia-ml.so.1")
KERNEL = "__global__ void Twice(float* x) { x[threadIdx.x] *= 2; }\n"


def say(text):
    print(f"setup: {text}", flush=True)


def missing_libraries(library):
    """Returns the libraries that `library` needs and the loader does not find."""
    listed = subprocess.run(["ldd", library], capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        return [f"{library}: {listed.stderr.strip()}"]
    names = re.findall(r"^\s*(\S+) => not found", listed.stdout, re.M)
    return [name for name in names if name not in OF_THE_DRIVER]


def open_libraries(torch):
    """Returns True if the CUDA part of LibTorch can be opened."""
    folder = os.path.join(torch, "lib")
    missing = {name for one in OPENED for name in missing_libraries(os.path.join(folder, one))}
    if missing:
        say(f"CUDA libraries: missing: {', '.join(sorted(missing))}; LibTorch looks for them in "
            f"{os.path.normpath(os.path.join(torch, '..', 'nvidia'))}/*/lib")
        return False
    try:
        ctypes.CDLL(os.path.join(folder, OPENED[0]), mode=os.RTLD_NOW | os.RTLD_GLOBAL)
    except OSError as error:
        say(f"CUDA libraries: cannot be opened: {error}")
        return False
    say("CUDA libraries: LibTorch opens them")
    return True


def compile_kernel(nvcc):
    """Returns True if `nvcc` compiles a kernel."""
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "kernel.cu")
        with open(source, "w", encoding="utf-8") as file:
            file.write(KERNEL)
        try:
            done = subprocess.run([nvcc, "-c", source, "-o", source + ".o"], capture_output=True,
                                  text=True, check=False)
        except OSError as error:
            say(f"CUDA compiler: {nvcc}: {error}")
            return False
    say(f"CUDA compiler: {nvcc} " +
        ("compiles" if done.returncode == 0 else f"fails: {(done.stderr or done.stdout).strip()}"))
    return done.returncode == 0


def name_devices():
    """Returns a line for each GPU, or one that says what is missing."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return ["none: libcuda.so.1 is missing; install NVIDIA's driver 580 or newer"]
    code = driver.cuInit(0)
    if code != 0:
        text = ctypes.c_char_p()
        driver.cuGetErrorString(code, ctypes.byref(text))
        return [f"none: the driver says: {(text.value or b'').decode() or code}; check nvidia-smi"]
    version = ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    if version.value < OLDEST_DRIVER:
        major, minor = divmod(version.value, 1000)
        return [f"none: the driver is for CUDA {major}.{minor // 10}, LibTorch for 13.0; install "
                "NVIDIA's driver 580 or newer"]
    count = ctypes.c_int()
    driver.cuDeviceGetCount(ctypes.byref(count))
    lines = []
    for device in range(count.value):
        name, size = ctypes.create_string_buffer(256), ctypes.c_size_t()
        driver.cuDeviceGetName(name, len(name), device)
        driver.cuDeviceTotalMem_v2(ctypes.byref(size), device)
        lines.append(f"{device}: {name.value.decode()}, {size.value / 2**30:.0f} GiB")
    return lines or ["none: the driver sees no GPU; check CUDA_VISIBLE_DEVICES and nvidia-smi"]


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: cuda_selftest.py TORCH_FOLDER NVCC")
    ok = open_libraries(sys.argv[1])
    ok = compile_kernel(sys.argv[2]) and ok
    for line in name_devices():
        say(f"GPU {line}")
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
