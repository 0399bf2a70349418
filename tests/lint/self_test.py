"""Every rule of the lint tests reports what it is there for, and lets good text pass."""
import pathlib
import tempfile

import docs
import format
import include_direction
import settings
import sizes
import test_tree
import wording
from sources import finish

CODE = "lib/rl/x.cc"
PAGE = "docs/x.md"
LONG = "x " * 51
SHORT = {str(n): 1 for n in range(10)}

SETTINGS = {"WorkerConfig": {"drain_ms": "std::int64_t"},
            "LocalSettings": {"worker": "WorkerConfig"}}
DEFAULTS = {("WorkerConfig", "drain_ms"): "10"}
SECTION = """
struct WorkerConfig {
  std::int64_t drain_ms = 10;

  void Visit(auto& v) {
    v("drain_ms", drain_ms, "time");
  }
};
"""

STATUSES = "| 3 | environment |\n| 130 | interrupted |"

# What is checked, on bad input, and on good input: one problem for the bad, none for the good.
CASES = {
    "exit statuses": (docs.missing_statuses, ("return 3;\nreturn 6;", STATUSES),
                      ("return 3;\nkInterrupted = 130;", STATUSES)),
    "columns of code": (format.check_columns, (CODE, LONG), (CODE, LONG[:100])),
    "columns of prose": (format.check_columns, (PAGE, LONG), (PAGE, f"|{LONG}\n```\n{LONG}\n```")),
    "characters, not bytes": (format.check_columns, (CODE, "é " * 51), (CODE, "é " * 50)),
    "torch outside the model": (
        include_direction.check,
        ("lib/base/x.cc", "#include <torch/types.h>"),
        ("lib/policy/x.cc", "#include <torch/types.h>")),
    "messages outside the wire": (
        include_direction.check,
        ("lib/base/x.cc", '#include "buttress/v1/weights.pb.h"'),
        ("lib/rpc/x.cc", '#include "buttress/v1/weights.pb.h"')),
    "a program includes another": (
        include_direction.check,
        ("cli/x/x.cc", '#include "learner/job.h"'), ("learner/x/x.cc", '#include "learner/job.h"')),
    "a library includes upwards": (
        include_direction.check,
        ("lib/base/x.cc", '#include "lib/rl/types.h"'), (CODE,
        '#include "lib/base/report/status.h"')),
    "a library of no known place": (
        include_direction.check,
        ("lib/unknown/x.cc", '#include "lib/base/report/status.h"'),
        ("lib/unknown/x.cc", "#include <map>")),
    "a setting that is only written": (
        settings.unread, (SETTINGS, ["f(WorkerConfig c) { c.drain_ms = 3; }"]),
        (SETTINGS, ["f(local.worker.drain_ms)"])),
    "a setting of another section": (
        settings.unread, (SETTINGS, ["f(learner.drain_ms)"]),
        (SETTINGS, ["f(WorkerConfig c) { return c.drain_ms == 3; }"])),
    "a setting that tests leave at its default": (
        settings.untested, (SETTINGS, DEFAULTS, ["c.drain_ms = 10; drain_ms: 10"]),
        (SETTINGS, DEFAULTS, ["local: {worker: {drain_ms: 20}}"])),
    "a file too long": (sizes.check_lengths, ({CODE: 601} | SHORT,), ({CODE: 600} | SHORT,)),
    "a long median": (sizes.check_lengths, ({CODE: 151, "y": 151, "z": 1},), ({CODE: 150},)),
    "many long files": (
        sizes.check_lengths, ({str(n): 100 for n in range(8)} | {"y": 401, "z": 401},),
        ({str(n): 100 for n in range(9)} | {"z": 400},)),
    "a drawer": (
        sizes.check_folders, ([f"lib/rl/{n}.cc" for n in range(31)],),
        ([f"lib/rl/{n}.cc" for n in range(30)] + ["lib/rl/loss/a.cc"],)),
    "a test that is not built": (
        test_tree.check_is_built, ("tests/unit/rl/a_test.cc", "pass_a_test.cc"),
        ("tests/unit/rl/a_test.cc", "SOURCES a_test.cc")),
    "a test of no folder": (
        test_tree.check_mirrors, ("tests/unit/tasks/CMakeLists.txt", {"cli/tasks"}.__contains__),
        ("tests/unit/cli/tasks/CMakeLists.txt", {"cli/tasks"}.__contains__)),
    "a test that ctest does not know": (
        test_tree.check_is_run, (test_tree.declared_tests("  buttress_test(a_test\n"), {"b_test"}),
        (test_tree.declared_tests("# buttress_test(a_test"), {"b_test"})),
    "a long README": (wording.check_readme, ("\n" * 131,), ("\n" * 130,)),
}
BAD_LINES = [
    (CODE, "std::regex r;"),
    (CODE, "} catch (...) {"),
    (CODE, "torch::load(x);"),
    (CODE, "using namespace std;"),
    (CODE, "// TODO: more"),
    (PAGE, "This is a placeholder."),
    (CODE, "// This is the brief's rule."),
    (PAGE, "See ../shared/design/style."),
    (CODE, "// algorithms.md 1.5"),
    (PAGE, "See [that](nowhere.md)."),
]
GOOD_LINES = [
    ("tests/x.cc", "} catch (...) {"),
    (CODE, "using namespace std::chrono_literals;"),
    (CODE, "// The table is in docs/estimators.md."),
    (PAGE, "See [the estimators](estimators.md) and https://example.org/a/b.md"),
]


def dead_links(text):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "x.md"
        path.write_text(text)
        return list(docs.dead_links(path))


def formatted(text):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "x.cc"
        path.write_text(text)
        return format.check_clang_format(["--style=Google", str(path)])


def main():
    problems = []

    def expect(name, found, count):
        if len(found) != count:
            problems.append(f"{name}: {count} problems expected, got {found}")

    for name, (check, bad, good) in CASES.items():
        expect(f"{name}, bad input", check(*bad), 1)
        expect(f"{name}, good input", check(*good), 0)
    for path, line in BAD_LINES:
        expect(line, wording.check(path, line), 1)
    for path, line in GOOD_LINES:
        expect(line, wording.check(path, line), 0)
    expect("declared settings", settings.sections(SECTION)["WorkerConfig"], 1)
    expect("dead links", dead_links("# Here\n[a](y.md) [b](#there)\n"), 2)
    expect("live links", dead_links("# Here it is\n[a](x.md#here-it-is)\n"), 0)
    expect("unformatted code", formatted("int  x ;\n"), 1)
    expect("formatted code", formatted("int x;\n"), 0)
    finish(problems, f"{len(CASES) + len(BAD_LINES) + 2} rules report what they are there for")


if __name__ == "__main__":
    main()
