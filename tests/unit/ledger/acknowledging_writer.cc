// Appends payloads and accepts groups in folder argv[1] without end, and writes one byte to
// standard output for each acknowledged group. ledger_kill_test kills it.
#include <unistd.h>

#include <string>

#include "lib/base/digest.h"
#include "lib/ledger/ledger.h"
#include "lib/ledger/payload_store.h"

namespace buttress {
namespace {

Status Accept(Ledger& ledger, PayloadStore& payloads, std::uint64_t id) {
  const std::string payload = "payload of group " + std::to_string(id);
  AcceptedRow accepted;
  accepted.group_id = id;
  accepted.content_sha256 = Sha256Of(payload);
  accepted.completions = {{.outcome = Outcome::kWrong}, {.outcome = Outcome::kWrong}};
  accepted.collapse = CollapseClass::kAllWrong;
  BUTTRESS_ASSIGN_OR_RETURN(accepted.payload,
                            payloads.Append({id, 1}, payload, accepted.content_sha256));
  BUTTRESS_RETURN_IF_ERROR(payloads.Sync());
  GroupRow group;
  group.group_id = id;
  group.state = GroupState::kReady;
  LedgerChanges changes;
  changes.groups = {group};
  changes.accepted = {accepted};
  changes.run.emplace();
  changes.run->next_group_id = id + 1;
  changes.collapse["s"].groups = static_cast<std::int64_t>(id);
  return ledger.Write(changes);
}

Status Run(const std::string& folder) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<Ledger> ledger,
                            Ledger::Open(folder + "/ledger.db"));
  BUTTRESS_ASSIGN_OR_RETURN(const LedgerSnapshot snapshot, ledger->Load());
  BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<PayloadStore> payloads,
                            PayloadStore::Open(folder + "/payloads", ledger->payload_end(), 4096));
  std::uint64_t next = snapshot.run ? snapshot.run->next_group_id : 1;
  while (true) {
    BUTTRESS_RETURN_IF_ERROR(Accept(*ledger, *payloads, next++));
    if (write(STDOUT_FILENO, "a", 1) != 1) return OkStatus();
  }
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) {
  return argc == 2 ? buttress::ExitCode(buttress::Run(argv[1])) : 2;
}
