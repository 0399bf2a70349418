#include "tests/simulation/sweep.h"

#include <fmt/core.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <utility>

#include "lib/base/report/check.h"
#include "tests/simulation/run_setup.h"

namespace buttress::simulation {
namespace {

// A process that writes lines to this one.
struct Child {
  pid_t process = -1;
  int lines = -1;      // descriptor to read from
  std::string unread;  // a line that is not complete
  std::uint64_t seed = 0;
  bool done = false;
};

template <class Body>
Child Fork(const Body& body) {
  int ends[2];
  BUTTRESS_CHECK(pipe(ends) == 0, "a pipe can be made");
  std::fflush(stdout);
  const pid_t process = fork();
  BUTTRESS_CHECK(process >= 0, "a process can be made");
  if (process == 0) {
    close(ends[0]);
    std::FILE* const out = fdopen(ends[1], "w");
    body(out);
    std::fflush(out);
    std::fflush(stdout);
    _exit(0);
  }
  close(ends[1]);
  return {process, ends[0], "", 0, false};
}

// Reads what there is; returns whole lines. Waits for it.
std::vector<std::string> ReadLines(Child& child) {
  char bytes[4096];
  const ssize_t size = read(child.lines, bytes, sizeof bytes);
  if (size <= 0) {
    child.done = true;
    return {};
  }
  child.unread.append(bytes, static_cast<std::size_t>(size));
  std::vector<std::string> lines;
  for (std::size_t end = child.unread.find('\n'); end != std::string::npos;
       end = child.unread.find('\n')) {
    lines.push_back(child.unread.substr(0, end));
    child.unread.erase(0, end + 1);
  }
  return lines;
}

// Returns how the process ended if not well.
std::string Reap(Child& child) {
  int status = 0;
  waitpid(child.process, &status, 0);
  close(child.lines);
  if (WIFSIGNALED(status)) return fmt::format("the process died of signal {}", WTERMSIG(status));
  return WEXITSTATUS(status) == 0 ? "" : "the process ended by itself";
}

void SweepShare(const SweepOptions& options, std::size_t share, std::FILE* out) {
  for (std::uint64_t i = share; i < options.seeds; i += options.processes) {
    const std::uint64_t seed = options.first_seed + i;
    fmt::print(out, "seed {}\n", seed);
    std::fflush(out);
    const RunOutcome outcome = RunSeed(seed, std::nullopt, nullptr);
    for (const auto& [name, count] : outcome.coverage)
      fmt::print(out, "count {} {}\n", count, name);
    fmt::print(out, "ran {} {}\n", outcome.simulated_ms, outcome.events);
    if (!outcome.failure.empty()) {
      fmt::print(out, "failed {}\n", outcome.failure);
      return;
    }
  }
}

void Take(const std::string& line, Child& child, SweepResult& result) {
  std::istringstream words(line);
  std::string kind;
  words >> kind;
  if (kind == "seed") {
    words >> child.seed;
  } else if (kind == "count") {
    std::int64_t count = 0;
    words >> count;
    std::string name;
    std::getline(words >> std::ws, name);
    result.coverage[name] += count;
  } else if (kind == "ran") {
    std::int64_t ms = 0, events = 0;
    words >> ms >> events;
    ++result.seeds;
    result.simulated_ms += ms;
    result.events += events;
  } else if (kind == "failed" && !result.failed) {
    result.failed = child.seed;
    std::getline(words >> std::ws, result.failure);
  }
}

}  // namespace

RunOutcome RunSeed(std::uint64_t seed, const std::optional<std::set<std::size_t>>& only,
                   const std::function<void(const std::string&)>& story) {
  std::vector<ScheduledFault> schedule = MakeSchedule(seed, kFaultMs);
  if (only) {
    std::vector<ScheduledFault> kept;
    for (const std::size_t index : *only)
      if (index < schedule.size()) kept.push_back(schedule[index]);
    schedule = std::move(kept);
  }
  RunOutcome outcome = RunCluster(seed, schedule, story);
  // A group that failed everywhere is dropped, and the next one takes its place.
  const bool lost = outcome.coverage.contains("dropped: poison");
  if (!outcome.failure.empty() || lost || !IsRepeatable(MakeSetup(seed))) return outcome;
  const RunOutcome undisturbed = RunCluster(seed, {}, nullptr);
  ++outcome.coverage["compared with an undisturbed run"];
  if (!undisturbed.failure.empty()) {
    outcome.failure = "without faults: " + undisturbed.failure;
  } else if (undisturbed.weights != outcome.weights) {
    outcome.failure = "(I11) the weights are not those of an undisturbed run";
  }
  return outcome;
}

SweepResult Sweep(const SweepOptions& options) {
  std::vector<Child> children;
  for (std::size_t share = 0; share < options.processes; ++share)
    children.push_back(Fork([&](std::FILE* out) { SweepShare(options, share, out); }));
  SweepResult result;
  std::size_t running = children.size();
  while (running > 0) {
    std::vector<pollfd> waited;
    for (const Child& child : children)
      waited.push_back({child.done ? -1 : child.lines, POLLIN, 0});
    poll(waited.data(), waited.size(), -1);
    for (std::size_t i = 0; i < children.size(); ++i) {
      Child& child = children[i];
      if (child.done || waited[i].revents == 0) continue;
      for (const std::string& line : ReadLines(child)) Take(line, child, result);
      if (!child.done) continue;
      --running;
      const std::string died = Reap(child);
      if (!died.empty() && !result.failed) {
        result.failed = child.seed;
        result.failure = died;
      }
    }
    if (!result.failed) continue;
    for (Child& child : children) {
      if (child.done) continue;
      kill(child.process, SIGKILL);
      Reap(child);
    }
    return result;
  }
  return result;
}

std::string Replay(std::uint64_t seed, const std::optional<std::set<std::size_t>>& only,
                   bool tells) {
  Child child = Fork([&](std::FILE* out) {
    const auto print = [](const std::string& line) {
      fmt::print("{}\n", line);
      std::fflush(stdout);
    };
    const RunOutcome outcome =
        RunSeed(seed, only, tells ? print : std::function<void(const std::string&)>());
    fmt::print(out, "{}\n", outcome.failure);
  });
  std::string failure;
  while (!child.done) {
    for (const std::string& line : ReadLines(child)) failure = line;
  }
  const std::string died = Reap(child);
  return died.empty() ? failure : died;
}

std::set<std::size_t> Shrink(std::uint64_t seed) {
  std::set<std::size_t> kept;
  for (std::size_t i = 0; i < MakeSchedule(seed, kFaultMs).size(); ++i) kept.insert(i);
  for (bool shorter = true; shorter;) {
    shorter = false;
    for (const std::size_t index : std::set<std::size_t>(kept)) {
      std::set<std::size_t> fewer = kept;
      fewer.erase(index);
      if (Replay(seed, fewer, false).empty()) continue;
      kept = std::move(fewer);
      shorter = true;
    }
  }
  return kept;
}

}  // namespace buttress::simulation
