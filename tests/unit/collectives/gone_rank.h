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
// mode `stuck` it makes no call. Every other rank prints one line and returns exit code 3.
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
  const Status status =
      group.AllReduceSum({data, 1, DType::kFloat32, memory.device()})->Wait(kGoneRankDeadline);
  std::fprintf(stderr, "rank %d leaves: %s\n", group.rank(), status.ToString().c_str());
  const Status next = group.Barrier();  // fails at once
  if (status.ok() || next.code() != StatusCode::kAborted) return 1;
  return ExitCode(status);
}

}  // namespace buttress
