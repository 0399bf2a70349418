// Reward functions written for verl or TRL, unchanged: python:FILE:FUNCTION (worker_program.h has
// the adapters).
//
// `workers` processes take a batch each; who comes when all are busy waits, within
// run.reward.timeout_ms, and so slows the queue behind it. A process that is too slow is killed,
// one that has ended is started again, with a pause that grows while starting fails. An exception,
// None and NaN are unscorable with the reason.
#include <utility>

#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/retry.h"
#include "lib/base/sync.h"
#include "lib/verify/remote/batch.h"
#include "lib/verify/remote/python_process.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

// A place for a process, which may be empty.
struct Seat {
  explicit Seat(std::uint64_t seed) : backoff({.initial_ms = 500, .max_ms = 30000}, seed) {}

  std::unique_ptr<PythonProcess> process;
  Backoff backoff;
  std::int64_t next_start_ms = 0;
  std::string why_empty;
};

class Python : public Verifier {
 public:
  Python(PythonFunction function, const RewardConfig& config)
      : function_(std::move(function)), config_(config) {}

  // Starts every process once, so that a file that cannot be used is known before the run.
  Status Start() {
    MutexLock lock(mutex_);
    for (std::int64_t i = 0; i < config_.python.workers; ++i) {
      auto seat = std::make_unique<Seat>(static_cast<std::uint64_t>(i));
      BUTTRESS_ASSIGN_OR_RETURN(seat->process,
                                PythonProcess::Start(function_, config_.python.start_ms));
      idle_.push_back(std::move(seat));
    }
    return OkStatus();
  }

  Verdict Verify(const VerifyRequest& request) const override {
    return std::move(VerifyBatch({&request, 1}).front());
  }

  std::size_t batch() const override { return static_cast<std::size_t>(config_.python.batch); }

  std::vector<Verdict> VerifyBatch(std::span<const VerifyRequest> requests) const override {
    const std::int64_t deadline_ms = RealClock().MonotonicMs() + config_.timeout_ms;
    std::unique_ptr<Seat> seat = Take(deadline_ms);
    if (seat == nullptr) return AllUnscorable(requests.size(), "timeout");
    std::vector<Verdict> verdicts = Call(*seat, requests, deadline_ms);
    MutexLock lock(mutex_);
    idle_.push_back(std::move(seat));
    returned_.NotifyOne();
    return verdicts;
  }

 private:
  // An idle seat; nothing if none came before the deadline.
  std::unique_ptr<Seat> Take(std::int64_t deadline_ms) const {
    MutexLock lock(mutex_);
    const std::chrono::milliseconds left(deadline_ms - RealClock().MonotonicMs());
    if (!returned_.WaitFor(mutex_, left, [this] { return !idle_.empty(); })) return nullptr;
    std::unique_ptr<Seat> seat = std::move(idle_.back());
    idle_.pop_back();
    return seat;
  }

  std::vector<Verdict> Call(Seat& seat, std::span<const VerifyRequest> requests,
                            std::int64_t deadline_ms) const {
    if (seat.process == nullptr) Fill(seat);
    if (seat.process == nullptr) return AllUnscorable(requests.size(), seat.why_empty);
    if (RealClock().MonotonicMs() >= deadline_ms)
      return AllUnscorable(requests.size(), "timeout");  // the start took it
    const Result<std::string> reply =
        seat.process->Call(EncodeBatch(requests), deadline_ms - RealClock().MonotonicMs());
    if (reply.ok()) return DecodeResults(*reply, requests.size(), config_.correct_from);
    Log(kWarn, "Python reward process given up",
        {{"function", function_.file + ":" + function_.name}, {"error", reply.status().message()}});
    seat.process.reset();
    return AllUnscorable(requests.size(), reply.status().message());
  }

  // Starts the process of an empty seat, unless the last start failed a moment ago. It may take
  // longer than one batch has: a file that imports slowly would else never be ready.
  void Fill(Seat& seat) const {
    if (RealClock().MonotonicMs() < seat.next_start_ms) return;
    Result<std::unique_ptr<PythonProcess>> started =
        PythonProcess::Start(function_, config_.python.start_ms);
    if (started.ok()) {
      seat.process = *std::move(started);
      seat.backoff.Reset();
      return;
    }
    seat.why_empty = started.status().message();
    seat.next_start_ms = RealClock().MonotonicMs() + seat.backoff.NextMs();
    Log(kWarn, "Python reward process does not start", {{"error", seat.why_empty}});
  }

  const PythonFunction function_;
  const RewardConfig config_;
  mutable Mutex mutex_;
  mutable CondVar returned_;
  mutable std::vector<std::unique_ptr<Seat>> idle_ GUARDED_BY(mutex_);
};

}  // namespace

Result<std::unique_ptr<Verifier>> MakePython(const RewardConfig& config,
                                             std::string_view argument) {
  const std::size_t colon = argument.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == argument.size())
    return InvalidArgument("'" + std::string(argument) +
                           "' names no function; expected python:FILE:FUNCTION");
  PythonFunction function{config.python.interpreter, std::string(argument.substr(0, colon)),
                          std::string(argument.substr(colon + 1)), config.python.chat};
  auto python = std::make_unique<Python>(std::move(function), config);
  BUTTRESS_RETURN_IF_ERROR(python->Start());
  return std::unique_ptr<Verifier>(std::move(python));
}

}  // namespace buttress
