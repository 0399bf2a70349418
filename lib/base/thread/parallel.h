// Work on several threads at once.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include "lib/base/report/status.h"

namespace buttress {

// Calls `run` with each index below `count`, on as many threads as the machine has cores, this one
// included, and returns when all calls have. Returns the error of the lowest index. Throws what
// `run` throws.
inline Status RunInParallel(std::size_t count, const std::function<Status(std::size_t)>& run) {
  const std::size_t cores = std::max(1U, std::thread::hardware_concurrency());
  std::vector<Status> statuses(count);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) statuses[i] = run(i);
  };
  std::vector<std::future<void>> others;
  for (std::size_t i = 1; i < std::min(count, cores); ++i)
    others.push_back(std::async(std::launch::async, work));
  work();
  for (std::future<void>& other : others) other.get();
  const auto failed = std::ranges::find_if(statuses, [](const Status& s) { return !s.ok(); });
  return failed == statuses.end() ? OkStatus() : *failed;
}

}  // namespace buttress
