// Programs that try to pass tests without doing what these ask for. None may pass, and none may be
// unscorable, which would spare it the reward of 0.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string_view>

#include "lib/verify/verifier.h"

namespace buttress {
namespace {

constexpr std::string_view kAddCalls =
    R"({"fn_name": "add", "inputs": [[1, 2], [10, 20]], "outputs": [3, 30]})";
constexpr std::string_view kAddPrograms =
    R"({"inputs": ["1 2\n", "10 20\n"], "outputs": ["3\n", "30\n"]})";
constexpr std::string_view kAddAsserts =
    R"({"test_list": ["assert add(1, 2) == 3", "assert set([add(10, 20)]) == {30}"]})";
constexpr std::string_view kAddCheck =
    R"({"entry_point": "add", "test": "def check(candidate):\n  expected = [3, 30]\n)"
    R"(  for a, b, c in [(1, 2, 3), (10, 20, 30)]:\n    assert candidate(a, b) == c\n"})";

constexpr const char* kCheats[] = {
    // objects that are equal to everything
    "class A:\n  def __eq__(s, o): return True\ndef add(a, b): return A()",
    "class A(int):\n  def __eq__(s, o): return True\n  __hash__ = int.__hash__\n"
    "def add(a, b): return A()",
    "class A(float):\n  def __eq__(s, o): return True\n  def __hash__(s): return 3\n"
    "def add(a, b): return A()",
    "class A(str):\n  def __eq__(s, o): return True\n  def __hash__(s): return 3\n"
    "def add(a, b): return A('x')",
    "class A(list):\n  def __eq__(s, o): return True\ndef add(a, b): return A()",
    "class A(dict):\n  def __eq__(s, o): return True\ndef add(a, b): return A()",
    "class A(tuple):\n  def __eq__(s, o): return True\n  def __hash__(s): return 3\n"
    "def add(a, b): return A()",
    "class M(type):\n  def __eq__(s, o): return True\n  def __hash__(s): return 3\n"
    "class A(metaclass=M): pass\ndef add(a, b): return A",
    "class A:\n  def __getattr__(s, n): return lambda *a: True\n  def __eq__(s, o): return True\n"
    "  def __len__(s): return 1\n  def __hash__(s): return 3\ndef add(a, b): return A()",
    "class A:\n  def __eq__(s, o): return True\n  def __call__(s, *a): return s\nadd = A()",
    "from unittest.mock import ANY\ndef add(a, b): return ANY",
    "from unittest.mock import MagicMock\nadd = MagicMock()",
    "class A:\n  def __contains__(s, o): return True\n  def __eq__(s, o): return True\n"
    "  def __bool__(s): return True\ndef add(a, b): return A()",
    "def add(a, b): return float('nan')",
    "def add(a, b): return float('inf')",
    "def add(a, b): return True",
    "def add(a, b): return NotImplemented",
    "def add(a, b): return None",
    // the interpreter changed
    "import builtins\nbuiltins.exec = lambda *a, **k: None\ndef add(a, b): return 0",
    "import builtins\nold = builtins.exec\nbuiltins.exec = lambda c, *a: None\n"
    "def add(a, b): return 0",
    "import builtins\nbuiltins.AssertionError = None\ndef add(a, b): return 0",
    "import builtins\nbuiltins.compile = lambda *a, **k: 'pass'\ndef add(a, b): return 0",
    "import builtins\nbuiltins.set = lambda *a: 0\nset = lambda *a: 0\ndef add(a, b): return 0",
    "def set(*a): return {30}\ndef add(a, b): return 3",
    "import builtins\nbuiltins.all = builtins.any = lambda *a: True\ndef add(a, b): return 0",
    "import json\njson.dumps = lambda *a, **k: '3'\ndef add(a, b): return 0",
    "import json\njson.loads = lambda *a, **k: {'value': 3}\ndef add(a, b): return 0",
    "import json\njson.encoder.encode_basestring_ascii = lambda s: '3'\ndef add(a, b): return 'x'",
    "import operator\noperator.eq = lambda a, b: True\ndef add(a, b): return 0",
    "import sys\nsys.modules['json'] = None\ndef add(a, b): return 0",
    "import os\nos._exit = lambda s: None\ndef add(a, b): return 0",
    "import os\nos.fork = lambda: 0\ndef add(a, b): return 0",
    "import os\nos.waitpid = lambda *a: (0, 0)\ndef add(a, b): return 0",
    "import sys\nsys.settrace(lambda *a: None)\nsys.setprofile(lambda *a: None)\n"
    "def add(a, b): return 0",
    "import sys\nsys.excepthook = lambda *a: None\ndef add(a, b): raise ValueError",
    "import gc\ndef add(a, b):\n  for o in gc.get_objects():\n    if isinstance(o, list): "
    "o.clear()\n"
    "  return 0",
    "import gc\ndef add(a, b):\n  for o in gc.get_objects():\n    if isinstance(o, dict) and "
    "'expected' in o: return o['expected'][0]\n  return 0",
    // what is expected, or a secret, looked for in frames, files and memory
    "import sys\ndef add(a, b):\n  f = sys._getframe()\n  while f:\n    for v in "
    "f.f_locals.values():"
    "\n      if isinstance(v, dict) and 'word' in v: print(v['word'], 0)\n    f = f.f_back\n"
    "  return 0",
    "import sys\ndef add(a, b):\n  f = sys._getframe()\n  while f:\n"
    "    if 'c' in f.f_locals: return f.f_locals['c']\n    f = f.f_back\n  return 0",
    "import inspect\ndef add(a, b):\n  for f in inspect.stack():\n"
    "    if 'tests' in f.frame.f_globals: return f.frame.f_globals['tests']\n  return 0",
    "import os, re\ndef add(a, b):\n  m = open('/proc/%d/mem' % os.getppid(), 'r+b', 0)\n"
    "  m.seek(0)\n  return 0",
    "import os\ndef add(a, b):\n  for p in os.listdir('/proc'):\n    if p.isdigit():\n      try:\n"
    "        for f in os.listdir('/proc/%s/fd' % p): open('/proc/%s/fd/%s' % (p, f)).read(0)\n"
    "      except OSError: pass\n  return 0",
    "import ctypes, os\ndef add(a, b):\n  return ctypes.CDLL(None).ptrace(16, os.getppid(), 0, 0)",
    "import glob\ndef add(a, b):\n  return [open(f).read() for f in glob.glob('/work/*')]",
    "open('/work/asserts.py', 'w').write('')\ndef add(a, b): return 0",
    "open('/work/json.py', 'w').write('dumps = loads = None')\ndef add(a, b): return 0",
    // outputs and reports forged
    "print('3')\nprint('30')\ndef add(a, b): return 0",
    "import os\nos.write(1, b'{\"bytes\": 0, \"exit\": 0}\\n' * 9)\ndef add(a, b): return 0",
    "import os\nfor fd in range(3, 64):\n  try: os.write(fd, b'{\"bytes\": 0, \"exit\": 0}\\n' * "
    "9)\n"
    "  except OSError: pass\ndef add(a, b): return 0",
    "import os\nfor fd in range(0, 64):\n  try: os.write(fd, b'{\"ended\": 0}\\n' * 9)\n"
    "  except OSError: pass\ndef add(a, b): return 0",
    "import os\ndef add(a, b):\n  for fd in range(0, 64):\n    try: os.write(fd, b'{\"value\": "
    "true}\\n'"
    ")\n    except OSError: pass\n  return 0",
    "import os\nfor fd in range(0, 64):\n  try: os.close(fd)\n  except OSError: pass\n"
    "def add(a, b): return 0",
    // ends before the tests do
    "import sys\nsys.exit(0)",
    "import os\nos._exit(0)",
    "quit()",
    "raise SystemExit",
    "def add(a, b):\n  raise SystemExit(0)",
    "def add(a, b):\n  import os\n  os._exit(0)",
    "def add(a, b): raise KeyboardInterrupt",
    "def add(a, b): raise StopIteration",
    "def add(a, b): raise AssertionError",
    "def add(a, b): raise GeneratorExit",
    "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "import os, signal\ndef add(a, b): os.kill(os.getppid(), signal.SIGKILL)",
    "import os, signal\ndef add(a, b): os.kill(-1, signal.SIGKILL)",
    "import os, signal\ndef add(a, b): os.kill(os.getppid(), signal.SIGSTOP)",
    // acts later
    "import atexit, os\natexit.register(lambda: os._exit(0))\ndef add(a, b): return 0",
    "import atexit\natexit.register(print, '3')\ndef add(a, b): return 0",
    "import signal, os\nsignal.signal(signal.SIGTERM, lambda *a: os._exit(0))\n"
    "signal.setitimer(signal.ITIMER_REAL, 0.01)\ndef add(a, b): return 0",
    "import threading, os, time\ndef later():\n  time.sleep(0.05)\n  os.write(1, b'3\\n')\n"
    "threading.Thread(target=later, daemon=True).start()\ndef add(a, b): return 0",
    "import os, time\nif os.fork() == 0:\n  os.setsid()\n  time.sleep(0.05)\n  os.write(1, "
    "b'3\\n')\n"
    "  os._exit(0)\ndef add(a, b): return 0",
    "import time\ndef add(a, b): time.sleep(1000)\ntime.sleep(1000)",
    "def add(a, b):\n  while True: pass",
    "def add(a, b): return add(a, b)",
    "def add(a, b): return [0] * (1 << 40)",
    "def add(a, b):\n  x = []\n  for i in range(5000): x = [x]\n  return x",
};

TEST(CodeCheats, NonePassesAndNoneIsUnscorable) {
  RewardConfig config;
  config.code.cpu_seconds = 1;
  config.code.wall_ms = 1500;
  Result<std::unique_ptr<Verifier>> verifier = MakeVerifier("code", config);
  if (verifier.status().code() == StatusCode::kFailedPrecondition)
    GTEST_SKIP() << verifier.status().message();
  ASSERT_TRUE(verifier.ok()) << verifier.status().ToString();
  constexpr std::string_view kHonest = "def add(a, b): return a + b";
  for (const std::string_view tests : {kAddCalls, kAddAsserts, kAddCheck})
    EXPECT_EQ((*verifier)->Verify({{}, kHonest, tests, {}, false}).outcome, Outcome::kCorrect)
        << (*verifier)->Verify({{}, kHonest, tests, {}, false}).given;
  for (const char* cheat : kCheats) {
    for (const std::string_view tests : {kAddCalls, kAddPrograms, kAddAsserts, kAddCheck}) {
      const Verdict verdict = (*verifier)->Verify({{}, cheat, tests, {}, false});
      EXPECT_EQ(verdict.outcome, Outcome::kWrong) << cheat << "\n"
                                                  << tests << "\n"
                                                  << verdict.given << verdict.unscorable_reason;
    }
  }
}

}  // namespace
}  // namespace buttress
