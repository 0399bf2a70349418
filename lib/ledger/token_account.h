// The account of the tokens that a run has sampled:
//   generated = trained + masked + stale + cut + parked.
// The workers say what they sampled and threw away; the groups say what became of the rest.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/experience/types.h"
#include "lib/ledger/rows.h"

namespace buttress::v1 {
class TokenAccount;
}  // namespace buttress::v1

namespace buttress {

// proto/buttress/v1/coordinator.proto says what each field means (TokenAccount).
struct TokenAccount {
  std::int64_t generated = 0;
  std::int64_t trained = 0;
  std::int64_t masked = 0;
  std::int64_t stale = 0;
  std::int64_t cut = 0;
  std::int64_t parked = 0;

  // 0 if the account closes. Only an accepted group whose row in the ledger is damaged opens it,
  // because nobody knows its tokens.
  std::int64_t difference() const { return generated - trained - masked - stale - cut - parked; }

  bool operator==(const TokenAccount&) const = default;
};

v1::TokenAccount ToProto(const TokenAccount& account);

// Adds what became of the tokens of an accepted group that is under way.
void AddGroup(const GroupRow& row, const v1::GroupHead& head, TokenAccount& account);

// The account of a run without a coordinator, so that no worker works.
TokenAccount AccountOf(const LedgerSnapshot& snapshot);

// What a worker process has said so far.
struct WorkerTokens {
  std::int64_t generated = 0;
  std::int64_t cut = 0;
  std::int64_t refused = 0;

  bool operator==(const WorkerTokens&) const = default;
};

// What the worker processes of a run have said, by process. Not thread-safe.
class WorkerTokenTable {
 public:
  WorkerTokenTable() = default;
  explicit WorkerTokenTable(const std::vector<WorkerTokensRow>& rows);

  // Takes what a process says. A number below an earlier one of the same process does not count,
  // because its calls may overtake each other.
  void Report(const std::string& worker_id, std::uint64_t incarnation, const WorkerTokens& tokens);

  // Counts an accepted group of the process, and appends the row of the process to `out`.
  void Accept(const std::string& worker_id, std::uint64_t incarnation, std::int64_t tokens,
              LedgerChanges& out);

  // Adds what the processes have sampled, cut and had refused. What a process has in hand is parked
  // if `works` says that it is still there, else it is lost: cut. A process that ended between its
  // last two calls may have delivered more than it had said; then this counts as sampled.
  void AddTo(TokenAccount& account,
             const std::function<bool(const std::string& worker_id, std::uint64_t incarnation)>&
                 works) const;

 private:
  WorkerTokensRow& RowOf(const std::string& worker_id, std::uint64_t incarnation);

  std::map<std::pair<std::string, std::uint64_t>, WorkerTokensRow> rows_;
};

}  // namespace buttress
