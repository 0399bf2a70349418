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

}  // namespace buttress
