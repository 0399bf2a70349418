// RPC FetchGroups: the learner fetches the payloads of a plan.
//
// A group is given up only if its loss is proven: the folder of payloads is there, another group of
// the plan can be read from it, and this one cannot, twice. While nothing can be read, the learner
// is asked to try again; a plan of which every record is damaged stops the run.
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "coordinator/rpc/service.h"
#include "lib/base/report/log.h"
#include "lib/rpc/channel.h"

namespace buttress {
namespace {

// Writes chunks of at most 1 MiB, each after the one before it has left, so that a slow reader
// holds one payload in memory. Payloads are read on gRPC's threads, not by the loop. A call that
// finds damaged groups is posted again, to give them up, and ends with kAborted.
class FetchGroupsCall final : public Call<grpc::ServerWriteReactor<v1::FetchGroupsResponse>> {
 public:
  FetchGroupsCall(CoordinatorLoop& loop, CoordinatorMetrics& metrics, const PayloadStore& payloads,
                  const v1::FetchGroupsRequest& request)
      : Call(loop, metrics, "FetchGroups", {.bytes = request.SpaceUsedLong()}),
        payloads_(payloads),
        request_(request) {
    Post();
  }

  std::optional<Status> Apply(Turn& turn, bool) override {
    Status status = CheckLearnerCall(turn, request_);
    if (status.ok()) status = damaged_.empty() ? Locate(turn) : GiveUp(turn);
    return CountFenced(turn, std::move(status));
  }

  void Answer(const Status& status) override { status.ok() ? WriteNext() : FinishCall(status); }

  void OnWriteDone(bool ok) override {
    ok ? WriteNext() : FinishCall(Cancelled("the reader has left"));
  }

 private:
  using Failures = std::map<std::size_t, Status>;  // by index into refs_

  Status Locate(Turn& turn) {
    BUTTRESS_ASSIGN_OR_RETURN(
        refs_, turn.scheduler.Payloads(request_.learner_epoch(), request_.step(),
                                       {request_.group_ids().data(),
                                        static_cast<std::size_t>(request_.group_ids_size())}));
    plan_refs_ = turn.scheduler.PlanPayloads(request_.step());
    return OkStatus();
  }

  Status GiveUp(Turn& turn) {
    for (const auto& [index, why] : damaged_) {
      const std::size_t drops = turn.changes.drops.size();
      BUTTRESS_RETURN_IF_ERROR(turn.scheduler.GiveUpDamaged(
          request_.learner_epoch(), request_.step(), IdOf(index), why.message(), turn.changes));
      if (turn.changes.drops.size() > drops)
        Log(kError, "a damaged group is given up; another takes its place in the plan",
            {{"group", IdOf(index)}, {"step", request_.step()}, {"why", why.message()}});
    }
    return Aborted(fmt::format(
        "group {} of step {} is damaged, and another takes its place; ask for the plan again",
        IdOf(damaged_.begin()->first), request_.step()));
  }

  void WriteNext() {
    if (sent_ == payload_.size()) {
      if (next_group_ == refs_.size()) return FinishCall(OkStatus());
      auto payload = payloads_.Read(refs_[next_group_]);
      if (!payload.ok()) return Examine();
      payload_ = std::move(*payload);
      sent_ = 0;
      ++next_group_;
    }
    const std::size_t size = std::min(payload_.size() - sent_, kChunkBytes);
    chunk_.set_group_id(IdOf(next_group_ - 1));
    chunk_.set_data(payload_.data() + sent_, size);
    sent_ += size;
    chunk_.set_last(sent_ == payload_.size());
    StartWrite(&chunk_);
  }

  // Finds out what the failure of a read means. Looks at the other groups of the request as well,
  // so that the plan is asked for once.
  void Examine() {
    Failures failures;
    for (std::size_t i = next_group_; i < refs_.size(); ++i) ReadAgain(i, failures);
    const Status folder = payloads_.CheckFolder();
    if (!folder.ok()) return Refuse(folder);
    for (const std::size_t i : Indices(failures)) ReadAgain(i, failures);
    if (const Status judged = Judge(failures); !judged.ok()) return Refuse(judged);
    for (const auto& [i, why] : failures) {
      const auto evidence = payloads_.KeepEvidence(IdOf(i), refs_[i]);
      if (!evidence.ok())
        Log(kWarn, "a damaged record could not be copied",
            {{"error", evidence.status().message()}});
    }
    damaged_ = std::move(failures);
    Post();
  }

  // Returns OK if all groups in `failures` are proven to be lost.
  Status Judge(const Failures& failures) const {
    const auto first = [&](auto is) {
      return std::ranges::find_if(failures, [&](const auto& entry) { return is(entry.second); });
    };
    if (failures.empty()) return Unavailable("a payload could not be read for a moment; try again");
    const auto is_loss = [](const Status& status) {
      return status.code() == StatusCode::kDataLoss || status.code() == StatusCode::kNotFound;
    };
    const auto other = first([&](const Status& status) { return !is_loss(status); });
    if (other != failures.end()) return other->second.Annotate(NameOf(other->first));
    if (CanReadAny()) return OkStatus();
    const auto gone = first([](const Status& s) { return s.code() == StatusCode::kNotFound; });
    if (gone == failures.end() && plan_refs_.size() == 1) return OkStatus();
    const std::string nothing = fmt::format(
        "none of the {} groups of the plan of step {} can be read from {} ({}); ",
        plan_refs_.size(), request_.step(), payloads_.folder(), failures.begin()->second.message());
    if (gone != failures.end())
      return Unavailable(nothing + "see that its disk works; until then no group is given up");
    return DataLoss(nothing +
                    "too much for a damaged record: mount the right folder or put it back from a "
                    "copy, or give up groups with `buttress ledger drop`");
  }

  // Returns whether the payload of any group of the plan is whole.
  bool CanReadAny() const {
    return next_group_ > 0 || std::ranges::any_of(plan_refs_, [this](const PayloadRef& ref) {
             return payloads_.Read(ref).ok();
           });
  }

  void ReadAgain(std::size_t index, Failures& failures) const {
    const Status status = payloads_.Read(refs_[index]).status();
    status.ok() ? void(failures.erase(index)) : void(failures[index] = status);
  }

  static std::vector<std::size_t> Indices(const Failures& failures) {
    std::vector<std::size_t> indices;
    for (const auto& [index, status] : failures) indices.push_back(index);
    return indices;
  }

  void Refuse(const Status& why) {
    Log(kWarn, "payloads of a plan cannot be read; no group is given up",
        {{"step", request_.step()}, {"why", why.message()}});
    FinishCall(why);
  }

  std::uint64_t IdOf(std::size_t index) const {
    return request_.group_ids(static_cast<int>(index));
  }

  std::string NameOf(std::size_t index) const {
    return fmt::format("group {} of step {}", IdOf(index), request_.step());
  }

  const PayloadStore& payloads_;
  const v1::FetchGroupsRequest& request_;
  std::vector<PayloadRef> refs_;
  std::vector<PayloadRef> plan_refs_;  // of the whole plan
  Failures damaged_;
  v1::FetchGroupsResponse chunk_;
  std::string payload_;         // of refs_[next_group_ - 1]
  std::size_t next_group_ = 0;  // index into refs_
  std::size_t sent_ = 0;        // bytes of payload_
};

}  // namespace

grpc::ServerWriteReactor<v1::FetchGroupsResponse>* CoordinatorService::FetchGroups(
    grpc::CallbackServerContext*, const v1::FetchGroupsRequest* request) {
  return new FetchGroupsCall(loop_, metrics_, payloads_, *request);
}

}  // namespace buttress
