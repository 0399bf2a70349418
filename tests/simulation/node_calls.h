// Calls that have arrived at the coordinator, by the kind of their RPC.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "coordinator/rpc/arriving_group.h"
#include "coordinator/rpc/plan_reader.h"
#include "lib/base/text/digest.h"
#include "lib/rpc/run_state.h"
#include "tests/simulation/coordinator_node.h"
#include "tests/simulation/plants.h"

namespace buttress::simulation {

template <class Answer>
using Reply = std::function<void(Result<Answer>)>;

// Whether nobody waits for the answer any more.
using Gone = std::function<bool()>;

// Of the leases that a worker gives back, the groups of those that it holds.
std::set<std::uint64_t> ReturnedGroups(const Turn& turn, const v1::ExchangeRequest& request);

// They go to another worker first.
void CheckReturns(CoordinatorNode& node, const Turn& turn, const std::set<std::uint64_t>& returned,
                  const v1::ExchangeRequest& request, const v1::ExchangeResponse& response);

// Planted: whoever gives its leases back has done no wrong.
void ForgiveReturns(Turn& turn, v1::ExchangeRequest request);

template <class Request, class Response>
class UnaryNodeCall final : public NodeCall {
 public:
  UnaryNodeCall(CoordinatorNode& node, const Request& request, simulation::Reply<Response> reply,
                Gone gone)
      : NodeCall(node, TermsOf(request)),
        request_(request),
        reply_(std::move(reply)),
        gone_(std::move(gone)) {}

  std::optional<Status> Apply(Turn& turn, bool last) override {
    std::uint64_t epoch = 0;
    if constexpr (kOfLearner) {
      epoch = request_.learner_epoch();
      if (Planted(Plant::kLearnerFenceLost)) PassFence(turn);
    }
    std::set<std::uint64_t> returned;
    if constexpr (std::is_same_v<Request, v1::ExchangeRequest>)
      returned = ReturnedGroups(turn, request_);
    const std::optional<Status> status = ApplyOnce(turn, last);
    if constexpr (kOfLearner) {
      if (status && status->ok()) {
        node_.world().Expect(epoch == turn.scheduler.run().learner_epoch,
                             "(I8) a learner that was replaced has an effect");
      }
      request_.set_learner_epoch(epoch);
    }
    if constexpr (std::is_same_v<Response, v1::ExchangeResponse>)
      if (status && status->ok()) {
        CheckReturns(node_, turn, returned, request_, response_);
        TakeGranted();
      }
    if (status && Planted(Plant::kEarlyAnswer)) Send(*status);
    return status;
  }

  bool cancelled() const override { return gone_(); }

  void Reply(const Status& status, std::unique_ptr<NodeCall>) override {
    const bool hides = Planted(Plant::kAnswerAfterFailure) && !IsPaused(status) &&
                       status.code() == StatusCode::kUnavailable;
    Send(hides ? OkStatus() : status);
  }

  void Drop() override { reply_(Unavailable("the connection was reset")); }

 private:
  static constexpr bool kOfLearner = requires(Request r) { r.learner_secret(); };

  void Send(const Status& status) {
    if (std::exchange(sent_, true)) return;
    if (!status.ok()) return reply_(status);
    if constexpr (std::is_same_v<Response, v1::PlanBatchResponse>)
      if (Planted(Plant::kPlanStale)) TakeFirstPlan();
    node_.checker().Answered(request_, response_);
    if constexpr (requires(Response r) { r.learner_secret(); })
      node_.newest_secret = response_.learner_secret();
    reply_(response_);
  }

  void PassFence(const Turn& turn) {
    request_.set_learner_epoch(turn.scheduler.run().learner_epoch);
    request_.set_learner_secret(node_.newest_secret);
  }

  std::optional<Status> ApplyOnce(Turn& turn, bool last) {
    if constexpr (std::is_same_v<Request, v1::RegisterLearnerRequest>) {
      Request passed = request_;
      if (Planted(Plant::kLineageLost)) PassLineage(turn, passed);
      return buttress::Apply(turn, passed, response_, last);
    }
    if constexpr (std::is_same_v<Request, v1::ExchangeRequest>)
      if (Planted(Plant::kReturnForgiven) && !request_.returned().empty())
        ForgiveReturns(turn, request_);
    return buttress::Apply(turn, request_, response_, last);
  }

  // Planted: the checkpoint is taken for one of the present learner.
  void PassLineage(const Turn& turn, v1::RegisterLearnerRequest& request) {
    v1::PolicyVersion& version = *request.mutable_checkpoint();
    const RunRow& run = turn.scheduler.run();
    if (version.step() <= run.settled_step || version.step() > run.committed_step) return;
    version.set_learner_epoch(run.learner_epoch);
    request.set_checkpoint_learner(Sha256Of(node_.newest_secret));
  }

  void TakeGranted() {
    node_.checker().Granted(response_);
    if (!Planted(Plant::kVersionAhead)) return;
    for (v1::Lease& lease : *response_.mutable_leases())
      lease.mutable_min_version()->set_step(lease.min_version().step() + 1);
  }

  // Planted: an answer is kept for the next that asks.
  void TakeFirstPlan() {
    if (!response_.has_plan()) return;
    *response_.mutable_plan() =
        node_.first_plans.try_emplace(request_.step(), response_.plan()).first->second;
  }

  Request request_;
  const simulation::Reply<Response> reply_;
  const Gone gone_;
  Response response_;
  bool sent_ = false;
};

// A group that arrives in parts; its call ends early if the last one is missing.
class SubmitNodeCall final : public NodeCall {
 public:
  SubmitNodeCall(CoordinatorNode& node, const std::vector<v1::SubmitGroupsRequest>& parts,
                 simulation::Reply<v1::SubmitGroupsResponse> reply, Gone gone)
      : NodeCall(node, {}),
        header_(parts.front().header()),
        parts_(Planted(Plant::kSubmitFenceLost) ? parts : std::vector<v1::SubmitGroupsRequest>()),
        reply_(std::move(reply)),
        gone_(std::move(gone)) {
    Arrive(parts);
    if (next_ == ArrivingGroup::Next::kPart) answer_ = group_->LeftEarly();
  }

  std::optional<Status> Apply(Turn& turn, bool last) override;

  bool cancelled() const override { return gone_(); }

  void Reply(const Status& status, std::unique_ptr<NodeCall>) override {
    if (!status.ok()) return reply_(status);
    node_.checker().Answered(header_, response_);
    reply_(response_);
  }

  void Drop() override { reply_(Unavailable("the connection was reset")); }

 private:
  void Arrive(const std::vector<v1::SubmitGroupsRequest>& parts) {
    group_.emplace(node_.arriving(), limits_, node_.metrics());
    next_ = ArrivingGroup::Next::kPart;
    for (v1::SubmitGroupsRequest part : parts) {
      if (next_ == ArrivingGroup::Next::kPart) next_ = group_->Add(part, answer_);
    }
  }

  // Planted: whoever submits a leased group has its lease.
  void PassFence(Turn& turn);

  // Planted: what is too old is given up, as if the learner had found it so.
  void DropGroup(Turn& turn) const;

  const v1::SubmitHeader header_;
  const std::vector<v1::SubmitGroupsRequest> parts_;
  const simulation::Reply<v1::SubmitGroupsResponse> reply_;
  const Gone gone_;
  const GroupLimits limits_;
  std::optional<ArrivingGroup> group_;
  ArrivingGroup::Next next_ = ArrivingGroup::Next::kPart;
  Status answer_;
  v1::SubmitGroupsResponse response_;
};

// What a stream of groups is made of.
using FetchParts = std::vector<v1::FetchGroupsResponse>;

// Payloads are read after the turn that located them, as gRPC's threads do.
class FetchNodeCall final : public NodeCall {
 public:
  FetchNodeCall(CoordinatorNode& node, const v1::FetchGroupsRequest& request,
                simulation::Reply<FetchParts> reply, Gone gone)
      : NodeCall(node, {}),
        request_(request),
        reply_(std::move(reply)),
        gone_(std::move(gone)),
        reader_(node.payloads(), request_) {}

  std::optional<Status> Apply(Turn& turn, bool) override { return reader_.Apply(turn); }

  bool cancelled() const override { return gone_(); }

  void Reply(const Status& status, std::unique_ptr<NodeCall> self) override;

  void Drop() override { reply_(Unavailable("the connection was reset")); }

 private:
  const v1::FetchGroupsRequest request_;
  // In chunks, as FetchGroupsCall; small ones, so that a stream may be cut in a group.
  void AddParts(const std::string& payload);

  const simulation::Reply<FetchParts> reply_;
  const Gone gone_;
  PlanReader reader_;
  FetchParts parts_;
  std::string first_payload_;
};

}  // namespace buttress::simulation
