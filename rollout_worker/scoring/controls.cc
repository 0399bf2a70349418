#include "rollout_worker/scoring/controls.h"

#include <chrono>
#include <utility>

#include "lib/base/os/clock.h"
#include "lib/base/text/reward_bounds.h"
#include "lib/experience/codec.h"
#include "lib/verify/audit/controls.h"
#include "lib/verify/extract.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kAtOnce(0);
constexpr std::chrono::milliseconds kJobWait(1000);
constexpr std::size_t kMaxResponseBytes = 1024;
constexpr std::int32_t kNoCompletion = -1;  // a control's place in the group, for draws of its own

}  // namespace

ControlScorer::ControlScorer(std::shared_ptr<const VerifierSet> verifiers,
                             const RewardConfig& config, std::shared_ptr<RewardNoise> noise)
    : verifiers_(std::move(verifiers)), config_(config), noise_(std::move(noise)), jobs_(kMost) {
  thread_ = std::thread([this] { Work(); });
}

ControlScorer::~ControlScorer() {
  jobs_.Close();
  while (jobs_.Pop(kAtOnce)) {
  }
  thread_.join();
}

void ControlScorer::Score(Lease lease, std::string prompt_text) {
  Job job{std::move(lease), std::move(prompt_text)};
  jobs_.Push(job, kAtOnce);
}

void ControlScorer::Report(v1::ExchangeRequest& request) const {
  const MutexLock lock(mutex_);
  for (const v1::ControlVerdict& verdict : verdicts_) *request.add_controls() = verdict;
}

void ControlScorer::MarkReported(const v1::ExchangeRequest& request) {
  const MutexLock lock(mutex_);
  verdicts_.erase(verdicts_.begin(), verdicts_.begin() + request.controls_size());
}

void ControlScorer::Work() {
  while (!jobs_.closed()) {
    const std::optional<Job> job = jobs_.Pop(kJobWait);
    if (!job) continue;
    v1::ControlVerdict verdict = VerdictOf(*job);
    const MutexLock lock(mutex_);
    if (verdicts_.size() < kMost) verdicts_.push_back(std::move(verdict));
  }
}

v1::ControlVerdict ControlScorer::VerdictOf(const Job& job) {
  const Lease& lease = job.lease;
  const std::string_view verifier = verifiers_->NameFor(lease.source);
  const std::uint64_t turn = turns_[lease.source]++;
  std::optional<std::string> response;
  if (turn % 2 == 1) response = SpoiledResponse(verifier, lease.answer, config_, turn / 2);
  const bool gold = !response;
  if (gold) response = GoldResponse(verifier, lease.answer, config_);

  v1::ControlVerdict out;
  *out.mutable_lease() = ToProto(lease.ref);
  out.set_source(lease.source);
  out.set_gold(gold);
  if (!response) return out;
  const Verdict verdict = Verify(job, *response);
  if (verdict.not_applicable) return out;
  out.set_outcome(static_cast<v1::Outcome>(verdict.outcome));
  out.set_response(std::string(FirstBytes(*response, kMaxResponseBytes)));
  out.set_reason(std::string(FirstBytes(verdict.unscorable_reason, kMaxReasonBytes)));
  return out;
}

Verdict ControlScorer::Verify(const Job& job, const std::string& response) const {
  const Verifier& verifier = verifiers_->For(job.lease.source);
  const double started = MonotonicSeconds();
  Verdict verdict = verifier.Verify({.prompt = job.prompt_text,
                                     .response = response,
                                     .answer = job.lease.answer,
                                     .extra_json = job.lease.extra_json,
                                     .source = job.lease.source});
  const double allowed = static_cast<double>(config_.timeout_ms) / 1000;
  if (!verifier.bounds_time() && MonotonicSeconds() - started > allowed)
    verdict = Unscorable(TimeoutReason(config_.timeout_ms));
  if (noise_)
    noise_->Apply({job.lease.ref.group_id, job.lease.ref.lease_epoch, kNoCompletion},
                  job.prompt_text, response, verdict);
  return verdict;
}

}  // namespace buttress
