// Goes on with a ledger that is older than the run, where a newer one is lost.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/status.h"
#include "lib/ledger/ledger.h"

namespace buttress {

struct RewindRequest {
  std::string folder;          // of the run
  std::string learner_folder;  // local.out of the learner; empty for `folder`
  std::string reason;          // which the audit shows
};

// What a rewind loses, and what it leaves.
struct RewindLoss {
  std::string older;                  // in what the ledger is older than its mark; "" if it is not
  std::uint64_t checkpoint_step = 0;  // that the learner goes on from; 0: from the start
  std::uint64_t planned_step = 0;     // steps up to this one are trained again with the same plans
  std::uint64_t lost_step = 0;        // the last one that is known to have been trained
  std::int64_t lost_groups = 0;       // whose payloads lie behind the last one of the ledger
  std::int64_t missing_payloads = 0;  // of groups that the ledger still needs: others replace them
  std::vector<std::string> checkpoints;  // folders that are moved aside, newest first
  std::string aside;                     // the folder that takes the payloads behind the ledger's

  // Whether there is anything to do: a ledger that fits mark and checkpoints needs no rewind.
  bool needed() const { return !older.empty() || !checkpoints.empty(); }
};

// Holds the lock of the ledger, so that no coordinator starts meanwhile. Not thread-safe.
class Rewind {
 public:
  // Finds the newest checkpoint that learner and ledger agree on: whole, of this run, and between
  // the settled and the last committed step of the ledger. Changes nothing. kFailedPrecondition if
  // the run goes on. kInvalidArgument if there is no such checkpoint, no learner in the folder, a
  // ledger of another run, or a damaged group in a run that must be repeatable.
  static Result<Rewind> Plan(const RewindRequest& request);

  const RewindLoss& loss() const { return loss_; }

  // Records the loss in the ledger, ends the learner epochs that may have been used, moves payloads
  // and checkpoints that the ledger does not know aside, and makes the ledger the newest one. It
  // deletes nothing. It may be repeated after an error or a crash: until the end the coordinator or
  // the learner refuses the run as before. REQUIRES: loss().needed().
  Status Apply();

 private:
  Rewind(RewindRequest request, std::unique_ptr<Ledger> ledger)
      : request_(std::move(request)), ledger_(std::move(ledger)) {}

  Status FindCheckpoint(const LedgerSnapshot& snapshot);
  Status FindLostSteps(const LedgerSnapshot& snapshot);
  Status FindLostGroups();
  Status CheckPayloads(const LedgerSnapshot& snapshot);
  Status MovePayloads() const;
  Status MoveCheckpoints() const;
  std::string payloads() const;
  std::string checkpoints() const;

  RewindRequest request_;
  std::unique_ptr<Ledger> ledger_;
  RunRow run_;
  RewindLoss loss_;
  std::uint64_t learner_epoch_ = 0;  // above all that may have been used
};

}  // namespace buttress
