// The behaviour of ranks whose peer is dead or stuck, for gone_rank_test.sh.
#pragma once

#include <poll.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <string_view>

#include "tests/unit/collectives/collective_suite.h"

namespace buttress {

inline constexpr std::chrono::milliseconds kGoneRankDeadline{1500};

// Runs an all-reduce in which the last rank does not take part: in mode `dead` it is killed, in
// mode `stuck` it makes no call. In mode `joined` it makes none either, and the others leave the
// wait to their device. Every other rank prints one line and returns exit code 3.
inline int RunWithoutLastRank(Collective& group, SuiteMemory& memory, std::string_view mode) {
  if (group.rank() == group.size() - 1) {
    if (mode == "dead") std::raise(SIGKILL);
    // Outlives the deadline of the others.
    ::poll(nullptr, 0, static_cast<int>(2 * kGoneRankDeadline.count()));
    group.Abort();
    return 0;
  }
  float value = 1;
  void* const data = memory.Upload(&value, sizeof value);
  const auto work = group.AllReduceSum({data, 1, DType::kFloat32, memory.device()});
  const bool joins = mode == "joined";
  if (joins) {
    const Status joined = work->Join(kGoneRankDeadline);
    memory.Download(&value, data, sizeof value);  // returns, with any value
    if (!joined.ok()) std::fprintf(stderr, "join: %s\n", joined.ToString().c_str());
  }
  const Status status = joins ? group.Barrier() : work->Wait(kGoneRankDeadline);
  std::fprintf(stderr, "rank %d leaves: %s\n", group.rank(), status.ToString().c_str());
  const Status next = group.Barrier();  // fails at once
  if (status.ok() || next.code() != (joins ? status.code() : StatusCode::kAborted)) return 1;
  return ExitCode(status);
}

// As RunWithoutLastRank, in a group that Liveness watches. The last rank is killed (`dead`),
// stopped with all its threads (`frozen`), late but alive (`busy`), or alive and never there
// (`stuck`). The others print one line and return exit code 3, or 0 if the last rank came.
inline int RunWatched(Collective& group, std::string_view mode) {
  LivenessOptions options;
  options.silence = 2 * kGoneRankDeadline;  // a rank that waits for a CPU is not silent so long
  options.stuck = 4 * kGoneRankDeadline;
  options.beat = std::chrono::milliseconds(100);
  const auto liveness = StartLiveness(group, options);
  if (!liveness.ok()) {
    std::fprintf(stderr, "rank %d: %s\n", group.rank(), liveness.status().ToString().c_str());
    return 1;
  }
  group.Watch(liveness->get());
  if (group.rank() == group.size() - 1) {
    if (mode == "dead") std::raise(SIGKILL);
    if (mode == "frozen") std::raise(SIGSTOP);  // for ever; the script kills it
    const int deadlines = mode == "busy" ? 2 : 6;
    ::poll(nullptr, 0, static_cast<int>(deadlines * kGoneRankDeadline.count()));
  }
  float value = 1;
  const auto started = std::chrono::steady_clock::now();
  const Status status = group.AllReduceSum({&value, 1})->Wait(kGoneRankDeadline);
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - started;
  std::fprintf(stderr, "rank %d leaves after %.1f s: %s\n", group.rank(), waited.count(),
               status.ToString().c_str());
  if (status.ok()) (*liveness)->Leave();
  group.Watch(nullptr);
  return ExitCode(status);
}

}  // namespace buttress
