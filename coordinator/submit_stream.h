// SubmitGroups: the groups that one worker brings over one call.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "buttress/v1/coordinator.grpc.pb.h"
#include "coordinator/call.h"
#include "coordinator/submit_budget.h"
#include "lib/base/sync.h"
#include "lib/experience/codec.h"

namespace buttress {

class SubmitStream;

// The open ones. Thread-safe.
class SubmitStreams {
 public:
  void Add(SubmitStream* stream);
  void Remove(SubmitStream* stream);

  // Ends every stream, those under way after the answer to their group; streams that are added
  // later end at once.
  void End();

 private:
  Mutex mutex_;
  bool ended_ GUARDED_BY(mutex_) = false;
  std::set<SubmitStream*> open_ GUARDED_BY(mutex_);
};

// One group after another: header, chunks of at most 1 MiB, answer. Size, hash and content are
// checked here, beside the loop; every group that is refused is counted and ends the stream.
class SubmitStream final
    : public Call<grpc::ServerBidiReactor<v1::SubmitGroupsRequest, v1::SubmitGroupsResponse>> {
 public:
  SubmitStream(CoordinatorLoop& loop, CoordinatorMetrics& metrics, SubmitBudget& budget,
               const GroupLimits& limits, SubmitStreams& streams);
  ~SubmitStream() override;

  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone() override;

  // Now, or after the answer to the group under way. Thread-safe.
  void End();

 private:
  enum class State { kIdle, kBusy, kEnding, kEnded };

  // False if the stream has ended.
  bool BeginPart();
  void AwaitGroup();
  void Finish(const Status& status);
  Status TakePart();
  Status TakeHeader(const v1::SubmitHeader& header);
  Result<Submission> Complete() const;
  void Refuse(const Status& status);
  void ForgetGroup();

  SubmitBudget& budget_;
  const GroupLimits& limits_;
  SubmitStreams& streams_;
  v1::SubmitGroupsRequest part_;
  v1::SubmitGroupsResponse response_;
  v1::SubmitHeader header_;
  bool has_header_ = false;  // and header_.total_bytes() are taken from the budget
  std::string bytes_;
  Submission submission_;
  Mutex mutex_;
  State state_ GUARDED_BY(mutex_) = State::kIdle;
};

}  // namespace buttress
