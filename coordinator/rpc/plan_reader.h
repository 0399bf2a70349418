// Reads the payloads of a plan, without gRPC (fetch_groups.cc).
//
// A group is given up only if its loss is proven: the folder of payloads is there, another group of
// the plan can be read from it, and this one cannot, twice. While nothing can be read, the learner
// is asked to try again; a plan of which every record is damaged stops the run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "buttress/v1/coordinator.pb.h"
#include "coordinator/loop/turn.h"
#include "lib/ledger/payload_store.h"

namespace buttress {

// Apply runs in a turn, Next on any thread; never both at a time.
class PlanReader {
 public:
  // `payloads` and `request` outlive the reader.
  PlanReader(const PayloadStore& payloads, const v1::FetchGroupsRequest& request)
      : payloads_(payloads), request_(request) {}

  // Finds the payloads, or gives up the groups that Next has proven to be lost, and returns
  // kAborted then: the learner asks for the plan again.
  Status Apply(Turn& turn);

  // Returns the payload of the next group of the request, and nullopt behind the last. An error
  // ends the call, unless must_apply().
  Result<std::optional<std::string>> Next();

  // Returns whether Next has found damaged groups, so that Apply is to give them up.
  bool must_apply() const { return !damaged_.empty(); }

  // The group whose payload Next returned last. REQUIRES: it has returned one.
  std::uint64_t group_id() const { return IdOf(next_group_ - 1); }

 private:
  using Failures = std::map<std::size_t, Status>;  // by index into refs_

  Status Locate(Turn& turn);
  Status GiveUp(Turn& turn);
  Status Examine();
  Status Judge(const Failures& failures) const;
  bool CanReadAny() const;
  void ReadAgain(std::size_t index, Failures& failures) const;
  Status Refuse(const Status& why) const;
  std::uint64_t IdOf(std::size_t index) const;
  std::string NameOf(std::size_t index) const;

  const PayloadStore& payloads_;
  const v1::FetchGroupsRequest& request_;
  std::vector<PayloadRef> refs_;
  std::vector<PayloadRef> plan_refs_;  // of the whole plan
  Failures damaged_;
  std::size_t next_group_ = 0;  // index into refs_
};

}  // namespace buttress
