// What the learner has of a stream of FetchGroups, without gRPC.
#pragma once

#include <string>
#include <vector>

#include "buttress/v1/coordinator.pb.h"
#include "lib/base/report/status.h"

namespace buttress {

// Not thread-safe.
class FetchedGroups {
 public:
  // `request` outlives the object.
  explicit FetchedGroups(const v1::FetchGroupsRequest& request) : request_(request) {}

  // Begins anew: what a stream has brought that was cut counts for nothing.
  void Clear();

  // Takes the next part. kDataLoss if it completes another group than the next one of the request.
  Status Add(const v1::FetchGroupsResponse& part);

  // Returns the groups of the request. kDataLoss if the stream has ended before the last one.
  Result<std::vector<v1::Group>> Take();

 private:
  const v1::FetchGroupsRequest& request_;
  std::string bytes_;  // of the next group
  std::vector<v1::Group> groups_;
};

}  // namespace buttress
