#include "coordinator/rpc/plan_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "coordinator/rpc/handlers.h"
#include "lib/base/report/log.h"

namespace buttress {

Status PlanReader::Apply(Turn& turn) {
  Status status = CheckLearnerCall(turn, request_);
  if (status.ok()) status = damaged_.empty() ? Locate(turn) : GiveUp(turn);
  return CountFenced(turn, std::move(status));
}

Status PlanReader::Locate(Turn& turn) {
  BUTTRESS_ASSIGN_OR_RETURN(
      refs_, turn.scheduler.Payloads(request_.learner_epoch(), request_.step(),
                                     {request_.group_ids().data(),
                                      static_cast<std::size_t>(request_.group_ids_size())}));
  plan_refs_ = turn.scheduler.PlanPayloads(request_.step());
  return OkStatus();
}

Status PlanReader::GiveUp(Turn& turn) {
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

Result<std::optional<std::string>> PlanReader::Next() {
  if (next_group_ == refs_.size()) return std::optional<std::string>();
  auto payload = payloads_.Read(refs_[next_group_]);
  if (!payload.ok()) return Examine();
  ++next_group_;
  return std::optional(*std::move(payload));
}

// Finds out what the failure of a read means, and returns it. Looks at the other groups of the
// request as well, so that the plan is asked for once.
Status PlanReader::Examine() {
  Failures failures;
  for (std::size_t i = next_group_; i < refs_.size(); ++i) ReadAgain(i, failures);
  const Status folder = payloads_.CheckFolder();
  if (!folder.ok()) return Refuse(folder);
  for (const auto& [i, why] : Failures(failures)) ReadAgain(i, failures);
  if (const Status judged = Judge(failures); !judged.ok()) return Refuse(judged);
  for (const auto& [i, why] : failures) {
    const auto evidence = payloads_.KeepEvidence(IdOf(i), refs_[i]);
    if (!evidence.ok())
      Log(kWarn, "a damaged record could not be copied", {{"error", evidence.status().message()}});
  }
  damaged_ = std::move(failures);
  return DataLoss(NameOf(damaged_.begin()->first) + " is damaged");
}

// Returns OK if all groups in `failures` are proven to be lost.
Status PlanReader::Judge(const Failures& failures) const {
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
      "none of the {} groups of the plan of step {} can be read from {} ({}); ", plan_refs_.size(),
      request_.step(), payloads_.folder(), failures.begin()->second.message());
  if (gone != failures.end())
    return Unavailable(nothing + "see that its disk works; until then no group is given up");
  return DataLoss(nothing +
                  "too much for a damaged record: mount the right folder or put it back from a "
                  "copy, or give up groups with `buttress ledger drop`");
}

// Returns whether the payload of any group of the plan is whole.
bool PlanReader::CanReadAny() const {
  return next_group_ > 0 || std::ranges::any_of(plan_refs_, [this](const PayloadRef& ref) {
           return payloads_.Read(ref).ok();
         });
}

void PlanReader::ReadAgain(std::size_t index, Failures& failures) const {
  const Status status = payloads_.Read(refs_[index]).status();
  status.ok() ? void(failures.erase(index)) : void(failures[index] = status);
}

Status PlanReader::Refuse(const Status& why) const {
  Log(kWarn, "payloads of a plan cannot be read; no group is given up",
      {{"step", request_.step()}, {"why", why.message()}});
  return why;
}

std::uint64_t PlanReader::IdOf(std::size_t index) const {
  return request_.group_ids(static_cast<int>(index));
}

std::string PlanReader::NameOf(std::size_t index) const {
  return fmt::format("group {} of step {}", IdOf(index), request_.step());
}

}  // namespace buttress
