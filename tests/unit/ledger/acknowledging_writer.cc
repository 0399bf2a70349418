// Appends payloads and accepts groups in folder argv[1] without end, and writes one byte to
// standard output for each acknowledged group. Every transaction has a checkpoint that ends the run
// early. ledger_kill_test kills it.
#include <unistd.h>

#include <cstdio>
#include <string>

#include "lib/base/os/failpoint.h"
#include "lib/base/text/digest.h"
#include "lib/ledger/ledger.h"
#include "lib/ledger/payload_store.h"
#include "tests/support/fakes/volatile_vfs.h"
#include "tests/support/make_head.h"

namespace buttress {
namespace {

constexpr int kGroupsOfATurn = 3;
constexpr int kTurnsOfAnOpening = 5;

Status Accept(PayloadStore& payloads, std::uint64_t id, LedgerChanges& changes) {
  const std::string payload = "payload of group " + std::to_string(id);
  AcceptedGroup accepted = MakeAccepted(MakeHead(id, {Outcome::kWrong, Outcome::kWrong}));
  accepted.content_sha256 = Sha256Of(payload);
  BUTTRESS_ASSIGN_OR_RETURN(accepted.payload,
                            payloads.Append({id, 1}, payload, accepted.content_sha256));
  GroupRow group;
  group.group_id = id;
  group.state = GroupState::kReady;
  changes.groups.push_back(group);
  changes.accepted.push_back(accepted);
  changes.run.emplace();
  changes.run->run_id = "run";
  changes.run->next_group_id = id + 1;
  changes.collapse["s"].groups = static_cast<std::int64_t>(id);
  return OkStatus();
}

// Accepts the next groups as a turn of the coordinator does.
Status RunTurn(Ledger& ledger, PayloadStore& payloads, std::uint64_t& next) {
  LedgerChanges changes;
  if (next == 1) changes.starts = {{1, "start"}};
  for (int i = 0; i < kGroupsOfATurn; ++i)
    BUTTRESS_RETURN_IF_ERROR(Accept(payloads, next++, changes));
  changes.checkpoints = {{0, next - 1, Sha256Of("checkpoint")}};
  changes.run->checkpoint_step = next - 1;
  changes.early_end = EarlyEndRow{0, next - 1, 0, "nothing left to learn"};
  BUTTRESS_RETURN_IF_ERROR(payloads.Sync());
  return ledger.Write(changes);
}

// Opens the run and accepts the groups of a few turns. The ledger is closed then, which copies the
// write-ahead log into the database.
Status RunTurns(const std::string& folder) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::unique_ptr<Ledger> ledger,
                            Ledger::Open(folder + "/ledger.db"));
  BUTTRESS_ASSIGN_OR_RETURN(const LedgerSnapshot snapshot, ledger->Load());
  BUTTRESS_ASSIGN_OR_RETURN(
      const std::unique_ptr<PayloadStore> payloads,
      PayloadStore::Open(folder + "/payloads", ledger->payload_end(), {}, 512));
  std::uint64_t next = snapshot.run ? snapshot.run->next_group_id : 1;
  for (int turn = 0; turn < kTurnsOfAnOpening; ++turn) {
    BUTTRESS_RETURN_IF_ERROR(RunTurn(*ledger, *payloads, next));
    if (write(STDOUT_FILENO, "aaa", kGroupsOfATurn) != kGroupsOfATurn) return OkStatus();
  }
  return OkStatus();
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) {
  if (argc != 2 || !buttress::ArmFailpoints().ok()) return 2;
  buttress::UseVolatileFiles();
  buttress::Status status;
  while (status.ok()) status = buttress::RunTurns(argv[1]);
  std::fprintf(stderr, "acknowledging_writer: %s\n", status.ToString().c_str());
  return buttress::ExitCode(status);
}
