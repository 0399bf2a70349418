#include "tests/simulation/worker_process.h"

#include <algorithm>
#include <utility>

#include "lib/base/text/digest.h"
#include "lib/experience/codec.h"
#include "lib/experience/group.h"
#include "lib/weights/manifest.h"
#include "rollout_worker/worker.h"

namespace buttress::simulation {
namespace {

constexpr std::size_t kCapacity = 3;
constexpr std::int64_t kGiveUpMs = 120000;
constexpr std::int64_t kGatherMs = 150;
constexpr std::int64_t kMostSubmissions = 3;

}  // namespace

WorkerProcess::WorkerProcess(World& world, Network& network, const RunSetup& setup, std::string id,
                             std::uint64_t number, const WorkerFlaws& flaws,
                             std::function<void()> ended)
    : world_(world),
      network_(network),
      setup_(setup),
      id_(std::move(id)),
      ended_(std::move(ended)),
      dice_(world.seed(), "worker process " + std::to_string(number)),
      process_(std::make_shared<Process>(Process{id_})),
      flaws_(flaws),
      groups_(id_, kCapacity, setup.mask_old) {
  self_.set_worker_id(id_);
  self_.set_incarnation(1000 + number);
  self_.set_config_sha256(setup.terms.config_sha256);
  self_.set_engine("simulated");
  self_.set_worker_secret(Sha256Of("secret of " + id_));
  if (flaws_.other_run) self_.set_run_id("another-run");
}

void WorkerProcess::Start() {
  world_.Tell("{}: starts as incarnation {}", id_, self_.incarnation());
  Register([this] { PlanExchange(0); });
}

void WorkerProcess::Kill() { process_->alive = false; }

void WorkerProcess::End(std::string_view why) {
  if (!alive()) return;
  world_.Tell("{}: ends: {}", id_, why);
  Kill();
  world_.After(0, nullptr, ended_);
}

void WorkerProcess::Register(std::function<void()> then) {
  network_.RetryCall<v1::RegisterWorkerRequest, v1::RegisterWorkerResponse>(
      process_, self_, 0, kGiveUpMs,
      [this, then = std::move(then)](Result<v1::RegisterWorkerResponse> response) {
        if (!response.ok()) return End(response.status().ToString());
        self_.set_run_id(response->run_id());
        self_.set_start_id(response->start_id());
        coordinator_epoch_ = response->coordinator_epoch();
        world_.Count("worker registered");
        then();
      });
}

// The coordinator does not take a call: it is repeated after registering, or the process ends.
void WorkerProcess::Refused(const Status& status, std::function<void()> again) {
  if (status.code() == StatusCode::kNotFound) {
    world_.Count("worker registered again");
    return Register(std::move(again));
  }
  End(status.ToString());
}

void WorkerProcess::PlanExchange(std::int64_t delay_ms) {
  world_.After(delay_ms, process_, [this, number = ++exchanges_] {
    if (number == exchanges_) Exchange(setup_.options.lease_ms / 3);
  });
}

// As Worker::Exchange.
void WorkerProcess::Exchange(std::int64_t wait_ms) {
  if (std::exchange(exchanging_, true)) return;
  auto request = std::make_shared<v1::ExchangeRequest>();
  const bool restarted = coordinator_epoch_ != reported_epoch_;
  const bool due = setup_.partial_ms > 0 &&
                   (restarted || draining_ || world_.now_ms() - reported_ms_ >= setup_.partial_ms);
  if (due) {
    if (restarted) groups_.ForgetPartials();
    std::vector<EngineResult> unfinished;
    for (auto& [id, running] : running_) {
      Advance(running);
      if (!running.result.token_ids.empty()) unfinished.push_back(running.result);
    }
    reported_epoch_ = coordinator_epoch_;
    if (groups_.ReportPartials(unfinished, *request)) reported_ms_ = world_.now_ms();
    world_.Count("partial completions reported", request->partials_size());
  }
  groups_.Fill(*request);
  request->set_draining(draining_);
  request->set_capacity(draining_ ? 0 : static_cast<std::uint32_t>(groups_.room()));
  *request->mutable_loaded_version() = ToProto(loaded_);
  *request->mutable_tokens() = Tokens();
  if (setup_.partial_ms > 0) wait_ms = std::min(wait_ms, setup_.partial_ms);
  if (request->capacity() == 0) wait_ms = std::min<std::int64_t>(wait_ms, 1000);
  request->set_wait_ms(static_cast<std::uint32_t>(draining_ ? 0 : wait_ms));
  request->set_worker_id(id_);
  request->set_incarnation(self_.incarnation());
  request->set_run_id(self_.run_id());
  request->set_worker_secret(self_.worker_secret());
  network_.RetryCall<v1::ExchangeRequest, v1::ExchangeResponse>(
      process_, *request, wait_ms, kGiveUpMs, [this, request](Result<v1::ExchangeResponse> answer) {
        exchanging_ = false;
        if (!answer.ok()) return Refused(answer.status(), [this] { Exchange(0); });
        groups_.MarkReported(*request);
        Apply(*answer);
      });
}

void WorkerProcess::Apply(const v1::ExchangeResponse& response) {
  for (const v1::LeaseRef& ref : response.revoked()) {
    world_.Count("lease revoked");
    Cancel(groups_.Revoke(FromProto(ref)));
  }
  if (response.has_weights()) {
    if (const auto manifest = ManifestFromProto(response.weights()); manifest.ok()) {
      announced_ = manifest->version;
      LoadWeights();
    } else {
      world_.Fail("a worker gets a manifest that is none: " + manifest.status().ToString());
    }
  }
  for (const v1::Lease& lease : response.leases()) AddLease(lease);
  if (response.run_state() == v1::RUN_STATE_FINISHED ||
      response.run_state() == v1::RUN_STATE_STOPPED)
    return End("the run has ended");
  if (response.order() == v1::WORKER_ORDER_DRAIN) draining_ = true;
  StartSamples();
  if (draining_ && groups_.counts().held == 0 && running_.empty())
    return End("it has handed on what it held");
  if (draining_) Leave();
  PlanExchange(kGatherMs);
}

// A worker that leaves gives back what it has not completed.
void WorkerProcess::Leave() { Cancel(groups_.ReturnUnsampled(ReturnReason::kDraining)); }

void WorkerProcess::AddLease(const v1::Lease& proto) {
  Result<Lease> lease = FromProto(proto);
  if (!lease.ok()) return world_.Fail("a lease is malformed: " + lease.status().ToString());
  std::vector<PartialCompletion> partials;
  for (const v1::PartialCompletion& begun : proto.partials()) {
    Result<PartialCompletion> partial = FromProto(begun);
    if (!partial.ok()) return world_.Fail("a kept completion is malformed");
    world_.Count("completion continued");
    partials.push_back(*std::move(partial));
  }
  const LeaseRef ref = lease->ref;
  world_.Tell("{}: leases group {} under epoch {}", id_, ref.group_id, ref.lease_epoch);
  Result<WorkerLease> work = PrepareLease(*std::move(lease), std::move(partials), tokenizer_);
  if (!work.ok()) return world_.Fail("a lease has no prompt: " + work.status().ToString());
  Cancel(groups_.RevokeOlder(ref));
  groups_.Add(*std::move(work));
  if (flaws_.broken && ref.group_id % 3 == 0)
    Cancel(groups_.Return(ref, ReturnReason::kWeightsUnavailable));
}

// Exact versions stay loaded while a group needs them.
void WorkerProcess::LoadWeights() {
  if (loading_ || !OlderThan(loaded_, announced_)) return;
  loading_ = true;
  world_.After(dice_.Between(50, 400), process_, [this] {
    loading_ = false;
    if (groups_.NeedsExactly(loaded_)) return LoadWeights();
    for (auto& [id, running] : running_) Advance(running);
    loaded_ = announced_;
    if (first_loaded_.learner_epoch == 0) first_loaded_ = loaded_;
    if (flaws_.sick) loaded_.digest = Sha256Of("weights that nobody published");
    world_.Tell("{}: has loaded version {}", id_, ToString(loaded_));
    StartSamples();
  });
}

void WorkerProcess::StartSamples() {
  if (loaded_.learner_epoch == 0) return;
  for (SampleRequest& request : groups_.StartRunnable(loaded_)) {
    EngineResult result;
    result.id = request.id;
    result.token_ids = request.begun.token_ids;
    result.logprobs = request.begun.logprobs;
    result.segments = request.begun.segments;
    if (request.begun.ended()) {  // it came complete
      result.finish_reason = request.begun.finish_reason;
      groups_.CountReceived(request.begun.end());
      AddSampled(std::move(result));
      continue;
    }
    Running running;
    running.begun = static_cast<std::int64_t>(result.token_ids.size());
    running.target =
        std::max(running.begun + 1, 1 + static_cast<std::int64_t>(request.sampling.seed % 6));
    running.began_ms = world_.now_ms();
    running.result = std::move(result);
    const SampleId id = request.id;
    running.request = std::move(request);
    const std::int64_t takes_ms = (running.target - running.begun) * TokenMs();
    running_.insert_or_assign(id, std::move(running));
    world_.After(takes_ms, process_, [this, id] { FinishSample(id); });
  }
}

void WorkerProcess::Advance(Running& running) {
  const std::int64_t elapsed_ms = world_.now_ms() - running.began_ms;
  const std::int64_t due = std::min(running.target, running.begun + elapsed_ms / TokenMs());
  EngineResult& result = running.result;
  while (static_cast<std::int64_t>(result.token_ids.size()) < due) {
    const auto index = static_cast<std::int32_t>(result.token_ids.size());
    if (result.segments.empty() || result.segments.back().version != loaded_)
      result.segments.push_back({index, loaded_});
    const std::uint64_t random = MixSeed(MixSeed(running.request.sampling.seed, loaded_.step),
                                         static_cast<std::uint64_t>(index));
    result.token_ids.push_back(static_cast<std::int32_t>(1 + random % 200));
    result.logprobs.push_back(-1);
  }
}

void WorkerProcess::FinishSample(const SampleId& id) {
  const auto found = running_.find(id);
  if (found == running_.end()) return;
  Advance(found->second);
  if (static_cast<std::int64_t>(found->second.result.token_ids.size()) < found->second.target) {
    world_.After(TokenMs(), process_, [this, id] { FinishSample(id); });  // it has become slower
    return;
  }
  EngineResult result = std::move(found->second.result);
  running_.erase(found);
  generated_ += result.sampled_tokens();
  result.finish_reason = FinishReason::kStop;
  AddSampled(std::move(result));
}

void WorkerProcess::Cancel(const std::vector<SampleId>& samples) {
  for (const SampleId& id : samples) {
    const auto found = running_.find(id);
    if (found == running_.end()) continue;
    Advance(found->second);
    const std::int64_t tokens = found->second.result.sampled_tokens();
    generated_ += tokens;
    groups_.CountCut(tokens);
    groups_.CountHandedOn(id, true);
    running_.erase(found);
  }
}

void WorkerProcess::AddSampled(EngineResult result) {
  auto request = groups_.AddSampled(std::move(result), scoring_);
  if (!request) return;
  if (!scoring_.Submit(*request).ok()) return;
  for (ScoredCompletion& scored : scoring_.Poll(std::chrono::milliseconds(0))) {
    if (scored.sample.token_ids.back() % 16 == 0) {
      scored.verdict = Unscorable("simulated");
      scored.verdict.parts = {{"even", 1, buttress::Outcome::kUnscorable, 0, "simulated", 0}};
    }
    groups_.AddScored(std::move(scored));
  }
  SubmitNext();
}

void WorkerProcess::SubmitNext() {
  if (submitting_ >= kMostSubmissions) return;
  std::optional<CompleteGroup> group = groups_.WaitForComplete(std::chrono::milliseconds(0));
  if (!group) return;
  ++submitting_;
  Submit(*std::move(group));
}

// What a broken worker submits: another prompt, or tokens of versions that are too old.
EncodedGroup WorkerProcess::Spoil(const EncodedGroup& encoded, const LeaseRef& ref) const {
  v1::Group other = *ParseGroup(encoded.bytes);
  if (ref.group_id % 2 == 0) {
    other.set_prompt_token_ids(0, other.prompt_token_ids(0) % 200 + 1);
  } else if (other.head().versions_size() == 1) {
    *other.mutable_head()->mutable_versions(0) = ToProto(first_loaded_);
  }
  return EncodedGroup::Of(other);
}

// As Submitter::Submit.
void WorkerProcess::Submit(CompleteGroup group) {
  auto kept = std::make_shared<CompleteGroup>(std::move(group));
  EncodedGroup encoded = kept->group;
  if (flaws_.broken) encoded = Spoil(encoded, kept->ref);
  v1::SubmitHeader header;
  header.set_run_id(self_.run_id());
  header.set_worker_id(id_);
  header.set_incarnation(self_.incarnation());
  header.set_worker_secret(self_.worker_secret());
  *header.mutable_lease() = ToProto(kept->ref);
  header.set_content_sha256(encoded.sha256);
  header.set_total_bytes(encoded.bytes.size());
  std::vector<v1::SubmitGroupsRequest> parts(1 + dice_.Below(2));
  *parts.front().mutable_header() = header;
  const std::size_t first = parts.size() == 1 ? encoded.bytes.size() : encoded.bytes.size() / 2;
  parts.front().set_data(encoded.bytes.substr(0, first));
  if (parts.size() > 1) parts.back().set_data(encoded.bytes.substr(first));
  network_.Retry<v1::SubmitGroupsResponse>(
      process_, kGiveUpMs,
      [this, parts](Reply<v1::SubmitGroupsResponse> reply) {
        network_.Submit(process_, parts, std::move(reply));
      },
      [this, kept](Result<v1::SubmitGroupsResponse> answer) {
        --submitting_;
        const StatusCode code = answer.status().code();
        if (answer.ok()) {
          const v1::SubmitResult result = answer->result();
          world_.Tell("{}: submits group {} under epoch {}: {}", id_, kept->ref.group_id,
                      kept->ref.lease_epoch, v1::SubmitResult_Name(result));
          groups_.Finish(
              *kept, result == v1::SUBMIT_RESULT_ACCEPTED || result == v1::SUBMIT_RESULT_DUPLICATE);
        } else if (code == StatusCode::kNotFound) {
          groups_.Requeue(std::move(*kept));
          return Refused(answer.status(), [this] { SubmitNext(); });
        } else if (code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded) {
          groups_.Requeue(std::move(*kept));
        } else {
          world_.Count("group refused");
          world_.Tell("{}: group {} is refused: {}", id_, kept->ref.group_id,
                      answer.status().ToString());
          groups_.ReturnRefused(*kept);
        }
        SubmitNext();
      });
}

v1::WorkerTokens WorkerProcess::Tokens() const {
  const TokenCounts counts = groups_.token_counts();
  v1::WorkerTokens tokens;
  tokens.set_generated(static_cast<std::uint64_t>(generated_ + counts.received - counts.handed_on));
  tokens.set_cut(static_cast<std::uint64_t>(counts.cut - counts.handed_on));
  tokens.set_refused(static_cast<std::uint64_t>(counts.refused));
  return tokens;
}

void WorkerProcess::Drain() {
  if (!alive() || std::exchange(draining_, true)) return;
  world_.Tell("{}: drains", id_);
  // Whoever cannot hand its groups on in time ends all the same.
  world_.After(10000, process_, [this] { End("its time to drain is over"); });
  PlanExchange(0);
}

}  // namespace buttress::simulation
