#include "coordinator/submission.h"

#include <utility>

#include "lib/base/digest.h"

namespace buttress {
namespace {

Submission SubmissionOf(const SubmitClaim& claim, const Group& group) {
  Submission submission;
  submission.worker_id = claim.worker_id;
  submission.incarnation = claim.incarnation;
  submission.lease = claim.lease;
  submission.content_sha256 = claim.content_sha256;
  submission.prompt_id = group.prompt_id;
  submission.accepted = SummarizeGroup(group);
  return submission;
}

}  // namespace

Result<Submission> ReadSubmission(const SubmitClaim& claim, std::string_view bytes,
                                  const GroupLimits& limits) {
  if (Sha256Of(bytes) != claim.content_sha256) {
    return InvalidArgument("the bytes do not have the SHA-256 of the header");
  }
  BUTTRESS_ASSIGN_OR_RETURN(const Group group, DecodeGroup(bytes, limits));
  if (group.group_id != claim.lease.group_id || group.worker_id != claim.worker_id) {
    return InvalidArgument("the header says group " + std::to_string(claim.lease.group_id) +
                           " of worker '" + std::string(claim.worker_id) + "', the content group " +
                           std::to_string(group.group_id) + " of '" + group.worker_id + "'");
  }
  return SubmissionOf(claim, group);
}

Result<bool> TakeAgain(const PayloadRef& payload, std::string_view bytes, const GroupLimits& limits,
                       Scheduler& scheduler, LedgerBatch& out) {
  const auto group = DecodeGroup(bytes, limits);
  if (!group.ok())
    return DataLoss("a payload behind the ledger's last: " + group.status().message() +
                    "; start the program that wrote it, or restore the run folder from a copy");
  const GroupRow* row = scheduler.groups().Find(group->group_id);
  if (row == nullptr) return false;
  // It was checked against its lease when it came, and no lease has changed since: that would be in
  // the ledger, and this group before it.
  const std::string sha256 = Sha256Of(bytes);
  const SubmitClaim claim{
      group->worker_id, row->incarnation, {group->group_id, row->lease_epoch}, sha256};
  Submission submission = SubmissionOf(claim, *group);
  if (scheduler.Check(submission) != SubmitOutcome::kAccepted) return false;
  submission.accepted.payload = payload;
  scheduler.Submit(std::move(submission), out);
  return true;
}

}  // namespace buttress
