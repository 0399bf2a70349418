// Programs that attempt to escape from the sandbox or to exhaust the machine, each of which must be
// contained. They run only inside a sandbox; without one, the tests are skipped.
#include "lib/verify/sandbox/sandbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

#include "lib/base/os/fd.h"
#include "lib/verify/process/spawn.h"
#include "tests/support/one_cpu.h"

namespace buttress {
namespace {

using std::chrono::milliseconds;
using ::testing::Contains;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::Not;

class SandboxTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    Result<Sandbox> opened = Sandbox::Open({});
    if (opened.ok()) sandbox_ = new Sandbox(*std::move(opened));
    if (!opened.ok()) why_ = new std::string(opened.status().message());
  }

  static void TearDownTestSuite() {
    delete sandbox_;
    delete why_;
  }

  void SetUp() override {
    if (sandbox_ != nullptr) return;
    // A machine may have no namespaces; one that has them must hold.
    ASSERT_THAT(*why_, Not(HasSubstr("does not hold")));
    GTEST_SKIP() << *why_;
  }

  static SandboxResult Python(std::string_view program,
                              SandboxLimits limits = {.cpu_seconds = 10,
                                                      .wall = milliseconds(20000)},
                              std::string_view input = {}) {
    const Result<SandboxResult> result = sandbox_->Run(
        {{"/usr/bin/python3", "-I", "/work/main.py"}, {{"/work/main.py", program}}, input, limits});
    EXPECT_TRUE(result.ok()) << result.status().ToString();
    return result.ok() ? *result : SandboxResult();
  }

  // Counts processes of this machine whose command line contains `marker`.
  static int Running(const std::string& marker) {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::ifstream file(entry.path() / "cmdline");
      const std::string line((std::istreambuf_iterator<char>(file)),
                             std::istreambuf_iterator<char>());
      count += line.find(marker) != std::string::npos ? 1 : 0;
    }
    return count;
  }

  static Sandbox* sandbox_;
  static std::string* why_;
};

Sandbox* SandboxTest::sandbox_ = nullptr;
std::string* SandboxTest::why_ = nullptr;

TEST_F(SandboxTest, RunsAProgramWithItsInputAndFiles) {
  const SandboxResult result =
      Python("import sys\nprint(sys.stdin.read().upper())\nsys.stderr.write('e')\nsys.exit(3)", {},
             "hello");
  EXPECT_EQ(result.end, SandboxEnd::kExited);
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.output, "HELLO\n");
  EXPECT_EQ(result.errors, "e");
}

TEST_F(SandboxTest, ASignalIsAnExitCode) {
  EXPECT_EQ(Python("import os\nos.abort()").exit_code, 134);
}

TEST_F(SandboxTest, AForkBombIsBoundedAndEndsWithTheRun) {
  const SandboxResult result = Python(
      "import os\nn = 0\n"
      "try:\n"
      "  while True:\n"
      "    if os.fork() == 0:\n"
      "      os.execv('/usr/bin/sleep', ['sleep', '98765431'])\n"
      "    n += 1\n"
      "except OSError:\n"
      "  print(n < 16)\n");
  EXPECT_EQ(result.output, "True\n");
  EXPECT_EQ(Running("98765431"), 0);
}

TEST_F(SandboxTest, AForkBombThatDoesNotEndIsKilledCompletely) {
  const SandboxResult result = Python(
      "import os\n"
      "while True:\n"
      "  try:\n"
      "    if os.fork() == 0:\n"
      "      os.setsid()\n"
      "      os.execv('/usr/bin/sleep', ['sleep', '98765432'])\n"
      "  except OSError: pass\n",
      {.cpu_seconds = 10, .wall = milliseconds(700)});
  // Beside other work it may have been given too little of a processor in that time.
  EXPECT_TRUE(result.end == SandboxEnd::kWallTime || result.end == SandboxEnd::kStarved);
  EXPECT_EQ(Running("98765432"), 0);
}

TEST_F(SandboxTest, MemoryIsBounded) {
  const SandboxResult result = Python(
      "try:\n  x = bytearray(1 << 30)\n  print('got it')\nexcept MemoryError:\n  print('refused')");
  EXPECT_EQ(result.output, "refused\n");
}

TEST_F(SandboxTest, MemoryOfAllProcessesIsBounded) {
  const SandboxResult result = Python(
      "import os, time\n"
      "for i in range(12):\n"
      "  if os.fork() == 0:\n"
      "    held = b'x' * (400 << 20)\n"
      "    time.sleep(98765433)\n"
      "time.sleep(98765433)\n");
  EXPECT_EQ(result.end, SandboxEnd::kMemory);
}

// So that the kernel ends it, and not the worker, where the machine's memory runs out.
TEST_F(SandboxTest, IsTheFirstToEndWhereMemoryRunsOut) {
  if (::access("/usr/bin/choom", X_OK) != 0) GTEST_SKIP() << "no choom";
  EXPECT_EQ(Python("print(open('/proc/self/oom_score_adj').read())").output, "1000\n\n");
}

// Its pages would stay, uncounted, when nobody maps them.
TEST_F(SandboxTest, MemoryIsSharedByFilesAlone) {
  const SandboxResult result = Python(
      "import mmap, os\n"
      "for path in None, '/dev/zero', '/dev/shm/x', '/tmp/x':\n"
      "  try:\n"
      "    file = os.open(path, os.O_RDWR | os.O_CREAT) if path else -1\n"
      "    if path == '/tmp/x': os.truncate(path, 4096)\n"
      "    shared = mmap.mmap(file, 4096)\n"
      "    print('shared', path)\n"
      "  except OSError: pass\n"
      "mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
      "if os.fork() == 0:\n"
      "  shared[0] = 7\n"
      "  os._exit(0)\n"
      "os.wait()\n"
      "print(shared[0])\n");
  EXPECT_EQ(result.output, "shared /tmp/x\n7\n") << result.errors;
}

TEST_F(SandboxTest, WhatProgramsNeedIsAllowed) {
  const SandboxResult result = Python(
      "import asyncio, os, select, signal, subprocess, tempfile, threading, time\n"
      "async def main():\n"
      "  await asyncio.sleep(0.01)\n"
      "  child = await asyncio.create_subprocess_exec('/usr/bin/true')\n"
      "  return await child.wait()\n"
      "print(asyncio.run(main()))\n"
      "print(subprocess.run(['/bin/sh', '-c', 'ls / | sort | head -1; echo $((6 * 7))'],\n"
      "                     capture_output=True, text=True).stdout.split())\n"
      "threads = [threading.Thread(target=time.sleep, args=(0.01,)) for _ in range(4)]\n"
      "for thread in threads: thread.start()\n"
      "for thread in threads: thread.join()\n"
      "with tempfile.TemporaryDirectory() as folder:\n"
      "  open(folder + '/a', 'w').write('x'); os.rename(folder + '/a', folder + '/b')\n"
      "  print(os.listdir(folder), os.stat(folder + '/b').st_size)\n"
      "signal.signal(signal.SIGALRM, lambda *_: print('alarm'))\n"
      "signal.setitimer(signal.ITIMER_REAL, 0.01)\n"
      "select.select([], [], [], 0.1)\n"
      "print(os.cpu_count() >= 1, os.getpid() > 0, len(os.urandom(8)), os.uname().sysname)\n");
  EXPECT_EQ(result.output, "0\n['bin', '42']\n['b'] 1\nalarm\nTrue True 8 Linux\n")
      << result.errors;
}

TEST_F(SandboxTest, PagesThatForksShareCountOnce) {
  const SandboxResult result = Python(
      "import os, time\n"
      "held = b'x' * (300 << 20)\n"
      "for i in range(8):\n"
      "  if os.fork() == 0:\n"
      "    time.sleep(0.5)\n"
      "    os._exit(0)\n"
      "for i in range(8): os.wait()\n"
      "print('done')");
  EXPECT_EQ(result.output, "done\n");
}

TEST_F(SandboxTest, TheNumberOfFilesIsBounded) {
  const SandboxResult result = Python(
      "import time\n"
      "for i in range(225000): open('/tmp/%d' % i, 'w').close()\n"
      "time.sleep(1000)");
  EXPECT_EQ(result.end, SandboxEnd::kFiles);
}

// The first process has the limits of bubblewrap and could hold memory beyond the run.
TEST_F(SandboxTest, TheFirstProcessCannotBeOpened) {
  const SandboxResult result = Python(
      "import ctypes, os\n"
      "for path in ['/proc/1/mem', '/proc/1/task/1/mem', '/proc/%d/mem' % os.getppid()]:\n"
      "  try:\n"
      "    open(path, 'r+b')\n"
      "    print('opened', path)\n"
      "  except OSError: pass\n"
      "for path in ['/proc/1/x', '/proc/x']:\n"
      "  try:\n"
      "    open(path, 'w')\n"
      "    print('wrote', path)\n"
      "  except OSError: pass\n"
      "print(ctypes.CDLL(None).prctl(1, 0, 0, 0, 0))\n");
  EXPECT_EQ(result.output, "-1\n");
}

TEST_F(SandboxTest, DiskIsBounded) {
  const SandboxResult result = Python(
      "import signal\n"
      "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
      "for folder in ['/work', '/tmp']:\n"
      "  n = 0\n"
      "  try:\n"
      "    for i in range(64):\n"
      "      with open(folder + '/%d' % i, 'wb') as f:\n"
      "        f.write(bytes(1 << 20))\n"
      "      n += 1\n"
      "  except OSError: pass\n"
      "  print(0 < n <= 16)\n"
      "for folder in ['/', '/usr', '/dev', '/dev/shm', '/etc', '/proc/sys/kernel']:\n"
      "  try:\n"
      "    open(folder + '/x', 'w')\n"
      "    print('wrote', folder)\n"
      "  except OSError: pass\n");
  EXPECT_EQ(result.output, "True\nTrue\n");
}

TEST_F(SandboxTest, AFileIsBounded) {
  const SandboxResult result =
      Python("open('/work/x', 'wb').write(bytes(20 << 20))",
             {.cpu_seconds = 10, .wall = milliseconds(20000), .disk_bytes = 8 << 20});
  EXPECT_NE(result.exit_code, 0);
}

TEST_F(SandboxTest, ThereIsNoNetwork) {
  const SandboxResult result = Python(
      "import socket, os\n"
      "for family in [socket.AF_INET, socket.AF_INET6, socket.AF_UNIX, socket.AF_NETLINK]:\n"
      "  try:\n"
      "    socket.socket(family, socket.SOCK_DGRAM)\n"
      "    print('socket', family)\n"
      "  except OSError: pass\n"
      "print(sorted(line.split(':')[0].strip() for line in "
      "open('/proc/net/dev').readlines()[2:]))\n");
  EXPECT_EQ(result.output, "['lo']\n");
}

TEST_F(SandboxTest, OtherProcessesCanNeitherBeTracedNorRead) {
  const SandboxResult result = Python(
      "import ctypes, os\n"
      "libc = ctypes.CDLL(None, use_errno=True)\n"
      "print(libc.ptrace(16, 1, 0, 0), ctypes.get_errno())\n"
      "print(libc.ptrace(0, 0, 0, 0), ctypes.get_errno())\n"
      "buffer = ctypes.create_string_buffer(16)\n"
      "print(libc.syscall(310, 1, buffer, 1, buffer, 1, 0))\n");
  EXPECT_EQ(result.output, "-1 38\n-1 38\n-1\n");
}

TEST_F(SandboxTest, ProcShowsOnlyTheSandbox) {
  ::setenv("BUTTRESS_SECRET", "hunter2", 1);
  const SandboxResult result = Python(
      "import os\n"
      "pids = [p for p in os.listdir('/proc') if p.isdigit()]\n"
      "print(len(pids) < 10, all(int(p) < 100 for p in pids))\n"
      "text = b''\n"
      "for pid in pids:\n"
      "  for name in ['environ', 'cmdline', 'maps']:\n"
      "    try: text += open('/proc/%s/%s' % (pid, name), 'rb').read()\n"
      "    except OSError: pass\n"
      "print(b'hunter2' in text, os.environ.get('BUTTRESS_SECRET'))\n"
      "for path in ['/proc/1/root/etc/passwd', '/proc/1/cwd/../etc/passwd', "
      "'/proc/self/root/root', '/proc/kcore', '/proc/sysrq-trigger']:\n"
      "  try:\n"
      "    open(path, 'rb' if 'trigger' not in path else 'wb').read(1)\n"
      "    print('opened', path)\n"
      "  except OSError: pass\n");
  EXPECT_EQ(result.output, "True True\nFalse None\n");
}

TEST_F(SandboxTest, SymlinksDoNotLeadOutside) {
  const SandboxResult result = Python(
      "import os\n"
      "for target in ['/etc/passwd', '/etc/shadow', '/root/.bashrc', '../../../../etc/passwd', "
      "'/proc/1/root/etc/hostname']:\n"
      "  os.symlink(target, '/work/link')\n"
      "  try: print('read', open('/work/link').read())\n"
      "  except OSError: pass\n"
      "  os.unlink('/work/link')\n"
      "try: os.link('/usr/bin/python3', '/work/hard')\n"
      "except OSError: print('no hard link')\n"
      "try: os.chroot('/usr')\n"
      "except OSError: print('no chroot')\n");
  EXPECT_EQ(result.output, "no hard link\nno chroot\n");
}

TEST_F(SandboxTest, SignalsDoNotReachProcessesOutside) {
  const std::string program = "import os\nself = " + std::to_string(::getpid()) +
                              "\n"
                              "for pid in [self, os.getppid(), -1]:\n"
                              "  try: os.kill(pid, 19)\n"
                              "  except OSError: pass\n"
                              "print('still here')\n";
  const SandboxResult result = Python(program, {.cpu_seconds = 10, .wall = milliseconds(3000)});
  EXPECT_TRUE(result.end == SandboxEnd::kWallTime || result.output == "still here\n")
      << result.output;
}

TEST_F(SandboxTest, ProgramsThatIgnoreSignalsAreKilled) {
  const SandboxResult result = Python(
      "import signal, time\n"
      "for s in range(1, 65):\n"
      "  try: signal.signal(s, signal.SIG_IGN)\n"
      "  except (OSError, ValueError): pass\n"
      "time.sleep(1000)\n",
      {.cpu_seconds = 10, .wall = milliseconds(700)});
  EXPECT_EQ(result.end, SandboxEnd::kWallTime);
}

TEST_F(SandboxTest, AFloodOfOutputEndsTheProgram) {
  for (const char* stream : {"stdout", "stderr"}) {
    const SandboxResult result =
        Python(std::string("import sys\nwhile True: sys.") + stream + ".write('x' * 65536)");
    EXPECT_EQ(result.end, SandboxEnd::kOutput) << stream;
    EXPECT_EQ((stream == std::string("stdout") ? result.output : result.errors).size(),
              std::size_t{64} << 10);
  }
}

TEST_F(SandboxTest, ABusyLoopEndsAtItsCpuTime) {
  const SandboxResult result =
      Python("while True: pass", {.cpu_seconds = 1, .wall = milliseconds(200000)});
  EXPECT_EQ(result.end, SandboxEnd::kCpuTime);
}

// Calls `run` in `count` threads at the same time, all on one CPU.
std::vector<SandboxEnd> EndsOnOneCpu(std::size_t count, const std::function<SandboxResult()>& run) {
  const OneCpu one_cpu;
  std::vector<SandboxEnd> ends(count);
  std::vector<std::jthread> threads;
  for (SandboxEnd& end : ends) threads.emplace_back([&] { end = run().end; });
  threads.clear();
  return ends;
}

TEST_F(SandboxTest, WaitingForACpuIsNoTimeOfTheProgram) {
  const auto run = [] {
    return Python("import time\nwhile time.process_time() < 0.25: pass",
                  {.cpu_seconds = 10, .wall = milliseconds(1000)});
  };
  EXPECT_THAT(EndsOnOneCpu(8, run), Each(SandboxEnd::kExited));
}

TEST_F(SandboxTest, AProgramThatABusyMachineDoesNotRunIsStarved) {
  const auto run = [] {
    return Python("while True: pass", {.cpu_seconds = 10, .wall = milliseconds(100)});
  };
  EXPECT_THAT(EndsOnOneCpu(40, run), Contains(SandboxEnd::kStarved));
}

TEST_F(SandboxTest, NoDescriptorOfTheCallerIsInherited) {
  int sockets[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);  // without close-on-exec
  const OwnedFd ours(sockets[0]);
  const OwnedFd theirs(sockets[1]);
  EXPECT_EQ(Python("import os\nprint(sorted(os.listdir('/proc/self/fd')))").output,
            "['0', '1', '2', '3']\n");  // 3 lists the folder
}

TEST_F(SandboxTest, NamespacesMountsAndFilesInMemoryAreRefused) {
  const SandboxResult result = Python(
      "import ctypes\n"
      "libc = ctypes.CDLL(None)\n"
      "print(libc.unshare(0x10000000), libc.mount(b'x', b'/tmp', b'tmpfs', 0, None), "
      "libc.memfd_create(b'x', 0), libc.shmget(0, 4096, 0o600))\n"
      "print(libc.syscall(425, 8, 0), libc.syscall(321, 0, 0, 0), libc.syscall(56, 0x10000000 | "
      "17, 0, 0, 0, 0))\n"
      "print(libc.setresuid(0, 0, 0))\n");
  EXPECT_EQ(result.output, "-1 -1 -1 -1\n-1 -1 -1\n-1\n");
}

TEST_F(SandboxTest, FilesOfTheRunCannotBeChanged) {
  const SandboxResult result = Python(
      "import os\n"
      "for action in [lambda: open('/work/main.py', 'a'), lambda: os.unlink('/work/main.py'), "
      "lambda: os.chmod('/work/main.py', 0o777),\n"
      "               lambda: os.rename('/work/main.py', '/work/x')]:\n"
      "  try:\n"
      "    action()\n"
      "    print('changed')\n"
      "  except OSError: pass\n");
  EXPECT_EQ(result.output, "");
}

TEST_F(SandboxTest, AProgramThatDoesNotExistIsTheProgramsFailure) {
  const Result<SandboxResult> result = sandbox_->Run({{"/usr/bin/no-such-program"}, {}, {}, {}});
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(result->exit_code, 127);
}

TEST_F(SandboxTest, AFolderThatDoesNotExistIsTheSandboxsFailure) {
  const auto sandbox =
      Sandbox::Open({.python = "/usr/bin/python3", .read_only = {"/no/such/folder"}});
  ASSERT_FALSE(sandbox.ok());
  EXPECT_EQ(sandbox.status().code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(sandbox.status().message(), HasSubstr("/no/such/folder"));
}

TEST_F(SandboxTest, ASandboxWithoutItsInterpreterIsRefused) {
  const auto sandbox = Sandbox::Open({.python = "/usr/bin/no-python", .read_only = {}});
  ASSERT_FALSE(sandbox.ok());
  EXPECT_THAT(sandbox.status().message(), HasSubstr("does not hold"));
}

}  // namespace
}  // namespace buttress
