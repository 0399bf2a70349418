// Verifier python:FILE:FUNCTION: unchanged reward functions of verl or TRL (python_program.h has
// the adapters).
//
// Each of `workers` processes scores one batch at a time. A batch waits for an idle process, for at
// most start_ms and timeout_ms, which slows the queue behind it; the function then has timeout_ms
// for the batch. A process that is too slow is killed. A process that has ended is started again,
// after a pause that grows while starting fails. A process that has scored `restart_after` batches,
// or holds more than `memory_mb`, is ended after its answer, and the next batch starts another.
// Exceptions, None and NaN are unscorable with the reason.
#include <cstdint>
#include <utility>

#include "lib/base/net/retry.h"
#include "lib/base/os/clock.h"
#include "lib/base/report/log.h"
#include "lib/base/thread/sync.h"
#include "lib/verify/remote/batch.h"
#include "lib/verify/remote/python_process.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

// A slot for a process, which may be empty.
struct Slot {
  explicit Slot(std::uint64_t seed) : backoff({.initial_ms = 500, .max_ms = 30000}, seed) {}

  std::unique_ptr<PythonProcess> process;
  std::int64_t batches = 0;  // that the process has scored
  Backoff backoff;
  std::int64_t next_start_ms = 0;
  std::string why_empty;
};

class Python : public Verifier {
 public:
  Python(PythonFunction function, const RewardConfig& config)
      : function_(std::move(function)), config_(config) {}

  // Starts every process once, so that an unusable file is an error before the run.
  Status Start() {
    MutexLock lock(mutex_);
    for (std::int64_t i = 0; i < config_.python.workers; ++i) {
      auto slot = std::make_unique<Slot>(static_cast<std::uint64_t>(i));
      BUTTRESS_ASSIGN_OR_RETURN(slot->process,
                                PythonProcess::Start(function_, config_.python.start_ms));
      idle_.push_back(std::move(slot));
    }
    return OkStatus();
  }

  Verdict Verify(const VerifyRequest& request) const override {
    return std::move(VerifyBatch({&request, 1}).front());
  }

  std::size_t batch() const override { return static_cast<std::size_t>(config_.python.batch); }

  // The function has timeout_ms; waiting for a process and starting one is not its time.
  bool bounds_time() const override { return true; }

  std::vector<Verdict> VerifyBatch(std::span<const VerifyRequest> requests) const override {
    std::unique_ptr<Slot> slot = WaitForIdle();
    if (slot == nullptr) return AllUnscorable(requests.size(), "timeout");
    std::vector<Verdict> verdicts = Call(*slot, requests);
    EndIfUsedUp(*slot);
    MutexLock lock(mutex_);
    idle_.push_back(std::move(slot));
    returned_.NotifyOne();
    return verdicts;
  }

 private:
  // Returns an idle slot, or null if none becomes idle in the time of a start and a batch.
  std::unique_ptr<Slot> WaitForIdle() const {
    MutexLock lock(mutex_);
    const std::chrono::milliseconds left(config_.python.start_ms + config_.timeout_ms);
    if (!returned_.WaitFor(mutex_, left, [this]() REQUIRES(mutex_) { return !idle_.empty(); }))
      return nullptr;
    std::unique_ptr<Slot> slot = std::move(idle_.back());
    idle_.pop_back();
    return slot;
  }

  std::vector<Verdict> Call(Slot& slot, std::span<const VerifyRequest> requests) const {
    if (slot.process == nullptr) StartProcess(slot);
    if (slot.process == nullptr) return AllUnscorable(requests.size(), slot.why_empty);
    const std::string batch =
        EncodeBatch(requests, {.token_ids = slot.process->wants_token_ids(), .state = true});
    const Result<std::string> reply = slot.process->Call(batch, config_.timeout_ms);
    ++slot.batches;
    if (reply.ok()) return DecodeResults(*reply, requests.size(), config_.correct_from);
    Log(kWarn, "Python reward process stopped after an error",
        {{"function", function_.file + ":" + function_.name}, {"error", reply.status().message()}});
    slot.process.reset();
    return AllUnscorable(requests.size(), reply.status().message());
  }

  // Ends a process that has served its time, once its verdicts have arrived.
  void EndIfUsedUp(Slot& slot) const {
    if (slot.process == nullptr) return;
    const PythonConfig& bounds = config_.python;
    const bool old = bounds.restart_after > 0 && slot.batches >= bounds.restart_after;
    const std::int64_t resident_mb = bounds.memory_mb > 0 ? slot.process->ResidentBytes() >> 20 : 0;
    if (!old && resident_mb <= bounds.memory_mb) return;
    Log(kInfo, "Python reward process is replaced",
        {{"function", function_.file + ":" + function_.name},
         {"batches", slot.batches},
         {"resident_mb", slot.process->ResidentBytes() >> 20}});
    slot.process.reset();
  }

  // Starts the process of an empty slot, unless the last start failed a moment ago.
  void StartProcess(Slot& slot) const {
    if (RealClock().MonotonicMs() < slot.next_start_ms) return;
    Result<std::unique_ptr<PythonProcess>> started =
        PythonProcess::Start(function_, config_.python.start_ms);
    if (started.ok()) {
      slot.process = *std::move(started);
      slot.batches = 0;
      slot.backoff.Reset();
      return;
    }
    slot.why_empty = started.status().message();
    slot.next_start_ms = RealClock().MonotonicMs() + slot.backoff.NextMs();
    Log(kWarn, "Python reward process does not start", {{"error", slot.why_empty}});
  }

  const PythonFunction function_;
  const RewardConfig config_;
  mutable Mutex mutex_;
  mutable CondVar returned_;
  mutable std::vector<std::unique_ptr<Slot>> idle_ GUARDED_BY(mutex_);
};

}  // namespace

Result<std::unique_ptr<Verifier>> MakePython(const RewardConfig& config,
                                             std::string_view argument) {
  const std::size_t colon = argument.rfind(':');
  if (colon == std::string_view::npos || colon == 0 || colon + 1 == argument.size())
    return InvalidArgument("'" + std::string(argument) +
                           "' names no function; expected python:FILE:FUNCTION");
  PythonFunction function{config.python.interpreter, std::string(argument.substr(0, colon)),
                          std::string(argument.substr(colon + 1)), config.python.chat,
                          config.python.arguments};
  auto python = std::make_unique<Python>(std::move(function), config);
  BUTTRESS_RETURN_IF_ERROR(python->Start());
  return std::unique_ptr<Verifier>(std::move(python));
}

}  // namespace buttress
