#include "tests/simulation/world.h"

namespace buttress::simulation {

void World::After(std::int64_t delay_ms, ProcessPtr process, std::function<void()> event) {
  events_.push({now_ms_ + std::max<std::int64_t>(delay_ms, 0), next_order_++, std::move(process),
                std::move(event)});
}

bool World::RunNext() {
  if (events_.empty() || !failure_.empty()) return false;
  Event event = events_.top();
  events_.pop();
  now_ms_ = event.at_ms;
  if (event.process && !event.process->alive) return true;
  if (event.process && event.process->paused_until_ms > now_ms_) {
    const std::int64_t wait_ms = event.process->paused_until_ms - now_ms_;
    After(wait_ms, std::move(event.process), std::move(event.run));
    return true;
  }
  event.run();
  return true;
}

void World::TellLine(const std::string& line) {
  story_(fmt::format("{:>9.3f} s  {}", static_cast<double>(now_ms_) / 1000, line));
}

void World::Fail(const std::string& what) {
  if (!failure_.empty()) return;
  failure_ = what;
  Tell("VIOLATED: {}", what);
}

void World::Count(std::string_view what, std::int64_t times) {
  const auto found = coverage_.find(what);
  if (found != coverage_.end()) {
    found->second += times;
  } else {
    coverage_.emplace(what, times);
  }
}

}  // namespace buttress::simulation
