#include "coordinator/loop/coordinator_loop.h"

#include <chrono>
#include <utility>

namespace buttress {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLongestWait(1000);

}  // namespace

CoordinatorLoop::CoordinatorLoop(LoopCore::Parts parts)
    : queue_(kMostCalls + 1), core_(std::move(parts), *this) {
  thread_ = std::thread([this] { Run(); });
}

CoordinatorLoop::~CoordinatorLoop() {
  Drain();
  Stop().IgnoreError();
}

bool CoordinatorLoop::Post(LoopRequest* request) {
  const std::size_t bytes = request->terms.bytes;
  if (!calls_.Take(bytes)) return false;
  if (queue_.Push(request, milliseconds(0))) return true;
  calls_.Return(bytes);
  return false;
}

void CoordinatorLoop::Drain() {
  draining_ = true;
  LoopRequest* wake = nullptr;
  queue_.Push(wake, kLongestWait);
}

Status CoordinatorLoop::Stop() {
  BUTTRESS_CHECK(draining_, "Drain is called before Stop, so that long polls are answered");
  queue_.Close();
  if (thread_.joinable()) thread_.join();
  return core_.failed();
}

void CoordinatorLoop::Run() {
  while (true) {
    first_ = queue_.Pop(milliseconds(core_.WaitMs()));
    if (!first_ && queue_.closed() && !core_.has_parked()) break;
    core_.RunTurn();
    if (!core_.failed().ok()) failed_ = true;
  }
}

std::vector<LoopRequest*> CoordinatorLoop::Take() {
  std::vector<LoopRequest*> posted = {std::exchange(first_, std::nullopt).value_or(nullptr)};
  for (std::size_t left = queue_.size(); left > 0; --left)
    posted.push_back(queue_.Pop(milliseconds(0)).value_or(nullptr));
  std::erase(posted, nullptr);
  return posted;
}

}  // namespace buttress
