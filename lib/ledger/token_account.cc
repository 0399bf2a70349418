#include "lib/ledger/token_account.h"

#include <algorithm>

#include "buttress/v1/coordinator.pb.h"

namespace buttress {

v1::TokenAccount ToProto(const TokenAccount& account) {
  v1::TokenAccount proto;
  proto.set_generated(static_cast<std::uint64_t>(account.generated));
  proto.set_trained(static_cast<std::uint64_t>(account.trained));
  proto.set_masked(static_cast<std::uint64_t>(account.masked));
  proto.set_stale(static_cast<std::uint64_t>(account.stale));
  proto.set_cut(static_cast<std::uint64_t>(account.cut));
  proto.set_parked(static_cast<std::uint64_t>(account.parked));
  return proto;
}

void AddGroup(const GroupRow& row, const v1::GroupHead& head, TokenAccount& account) {
  const std::int64_t tokens = TokensOf(head);
  if (row.state != GroupState::kTrained) {
    account.parked += tokens;
    return;
  }
  account.trained += TrainedTokensOf(head);
  account.masked += tokens - TrainedTokensOf(head);
}

TokenAccount AccountOf(const LedgerSnapshot& snapshot) {
  TokenAccount account;
  account.trained = snapshot.ended_tokens.trained;
  account.masked = snapshot.ended_tokens.masked;
  account.stale = snapshot.ended_tokens.stale;
  for (const auto& [id, group] : snapshot.accepted)
    AddGroup(snapshot.groups.at(id), *group.head, account);
  WorkerTokenTable(snapshot.worker_tokens).AddTo(account, [](const std::string&, std::uint64_t) {
    return false;
  });
  return account;
}

WorkerTokenTable::WorkerTokenTable(const std::vector<WorkerTokensRow>& rows) {
  for (const WorkerTokensRow& row : rows) rows_[{row.worker_id, row.incarnation}] = row;
}

WorkerTokensRow& WorkerTokenTable::RowOf(const std::string& worker_id, std::uint64_t incarnation) {
  WorkerTokensRow& row = rows_[{worker_id, incarnation}];
  row.worker_id = worker_id;
  row.incarnation = incarnation;
  return row;
}

void WorkerTokenTable::Report(const std::string& worker_id, std::uint64_t incarnation,
                              const WorkerTokens& tokens) {
  WorkerTokensRow& row = RowOf(worker_id, incarnation);
  row.generated = std::max(row.generated, tokens.generated);
  row.cut = std::max(row.cut, tokens.cut);
  row.refused = std::max(row.refused, tokens.refused);
}

void WorkerTokenTable::Accept(const std::string& worker_id, std::uint64_t incarnation,
                              std::int64_t tokens, LedgerChanges& out) {
  WorkerTokensRow& row = RowOf(worker_id, incarnation);
  row.accepted += tokens;
  out.worker_tokens.push_back(row);
}

void WorkerTokenTable::AddTo(
    TokenAccount& account,
    const std::function<bool(const std::string&, std::uint64_t)>& works) const {
  for (const auto& [process, row] : rows_) {
    const std::int64_t known = row.cut + row.refused + row.accepted;
    const std::int64_t in_hand = std::max<std::int64_t>(0, row.generated - known);
    account.generated += known + in_hand;
    account.cut += row.cut;
    account.stale += row.refused;
    (works(row.worker_id, row.incarnation) ? account.parked : account.cut) += in_hand;
  }
}

}  // namespace buttress
