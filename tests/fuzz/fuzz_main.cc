// Runs parsers on inputs that are almost valid: fuzz_parsers [--seconds S] [--seed N] [--target
// NAME] [--limit-ms M] [--replay FILE]. Prints the seed first, then the time of each target. A
// crash, an exception or an input that exceeds the limit of CPU time ends the program with 1. The
// input is then saved in fuzz-crash-TARGET for --replay.
#include <fcntl.h>
#include <signal.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "lib/base/os/file.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/mutator.h"

namespace buttress {
namespace {

struct Flags {
  double seconds = 20;
  std::uint64_t seed = 1;
  std::string target;
  std::int64_t limit_ms = 1000;
  std::string replay;
};

// The state that the crash handler saves.
const char* current_bytes = nullptr;
std::size_t current_size = 0;
char crash_path[128];

// Uses only functions that a signal handler may call.
void KeepInput() {
  const int file = ::open(crash_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file < 0) return;
  for (std::size_t at = 0; at < current_size;) {
    const ssize_t written = ::write(file, current_bytes + at, current_size - at);
    if (written <= 0) break;
    at += static_cast<std::size_t>(written);
  }
  ::close(file);
  constexpr char kSaid[] = "\nfuzz_parsers: crash or stall; the input is in ";
  (void)!::write(2, kSaid, sizeof(kSaid) - 1);
  (void)!::write(2, crash_path, std::strlen(crash_path));
  (void)!::write(2, "\n", 1);
}

void OnCrash(int number) {
  KeepInput();
  ::signal(number, SIG_DFL);
  ::raise(number);
}

// Handles SIGPROF: the input has used three times its limit and has not ended.
void CatchCrashes() {
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGPROF})
    ::signal(number, OnCrash);
}

double CpuSeconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double WallSeconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Returns the CPU seconds of one input. Ends the process if the input crashes or does not end.
double RunOne(const FuzzTarget& target, const std::string& input, std::int64_t limit_ms) {
  current_bytes = input.data();
  current_size = input.size();
  const std::int64_t stalled_ms = 3 * limit_ms;
  const itimerval timer{{0, 0}, {stalled_ms / 1000, stalled_ms % 1000 * 1000}};
  ::setitimer(ITIMER_PROF, &timer, nullptr);
  const double begin = CpuSeconds();
  target.run(input);
  const double taken = CpuSeconds() - begin;
  const itimerval off{};
  ::setitimer(ITIMER_PROF, &off, nullptr);
  return taken;
}

bool RunTarget(const FuzzTarget& target, const Flags& flags, double seconds) {
  std::snprintf(crash_path, sizeof(crash_path), "fuzz-crash-%s", std::string(target.name).c_str());
  Mutator mutator(flags.seed, target.corpus(), target.dictionary, target.max_bytes);
  std::int64_t inputs = 0;
  double slowest = 0;
  const double end = WallSeconds() + seconds;
  do {
    const std::string input = mutator.Next();
    const double taken = RunOne(target, input, flags.limit_ms);
    ++inputs;
    slowest = std::max(slowest, taken);
    if (taken * 1000 > static_cast<double>(flags.limit_ms)) {
      KeepInput();
      std::fprintf(stderr, "%s: an input of %zu bytes took %.0f ms\n",
                   std::string(target.name).c_str(), input.size(), taken * 1000);
      return false;
    }
  } while (WallSeconds() < end);
  std::printf("%-12s %10lld inputs, the slowest %.1f ms\n", std::string(target.name).c_str(),
              static_cast<long long>(inputs), slowest * 1000);
  std::fflush(stdout);
  return true;
}

int Run(const Flags& flags) {
  std::vector<FuzzTarget> targets = CompletionTargets();
  for (const FuzzTarget& target : FileTargets()) targets.push_back(target);
  if (!flags.target.empty())
    std::erase_if(targets, [&](const FuzzTarget& target) { return target.name != flags.target; });
  if (targets.empty()) {
    std::fprintf(stderr, "fuzz_parsers: no target '%s'\n", flags.target.c_str());
    return 2;
  }
  if (!flags.replay.empty()) {
    const Result<std::string> input = ReadFile(flags.replay);
    if (!input.ok() || targets.size() != 1) {
      std::fprintf(stderr, "fuzz_parsers: --replay takes a file that can be read, and --target\n");
      return 2;
    }
    std::printf("%.1f ms\n", RunOne(targets.front(), *input, flags.limit_ms) * 1000);
    return 0;
  }
  std::printf("seed %llu\n", static_cast<unsigned long long>(flags.seed));
  CatchCrashes();
  for (const FuzzTarget& target : targets) {
    if (!RunTarget(target, flags, flags.seconds / static_cast<double>(targets.size()))) return 1;
  }
  return 0;
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) {
  buttress::Flags flags;
  CLI::App app("Fuzzes the parsers of what comes from outside");
  app.add_option("--seconds", flags.seconds, "in all");
  app.add_option("--seed", flags.seed, "the same seed makes the same inputs");
  app.add_option("--target", flags.target, "only this one");
  app.add_option("--limit-ms", flags.limit_ms, "CPU time of one input");
  app.add_option("--replay", flags.replay, "run this input once");
  CLI11_PARSE(app, argc, argv);
  return buttress::Run(flags);
}
