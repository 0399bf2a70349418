#include "lib/ledger/token_account.h"

#include <gtest/gtest.h>

#include "tests/support/make_head.h"

namespace buttress {
namespace {

bool All(const std::string&, std::uint64_t) { return true; }

bool None(const std::string&, std::uint64_t) { return false; }

TokenAccount AccountOf(const WorkerTokenTable& table, bool works) {
  TokenAccount account;
  table.AddTo(account, works ? All : None);
  return account;
}

TEST(WorkerTokenTableTest, WhatAWorkerHasInHandIsParkedAndLostWithIt) {
  WorkerTokenTable table;
  LedgerChanges changes;
  table.Report("w", 1, {.generated = 100, .cut = 10, .refused = 20});
  table.Accept("w", 1, 30, changes);
  EXPECT_EQ(AccountOf(table, true),
            (TokenAccount{.generated = 100, .stale = 20, .cut = 10, .parked = 40}));
  EXPECT_EQ(AccountOf(table, false), (TokenAccount{.generated = 100, .stale = 20, .cut = 50}));
}

TEST(WorkerTokenTableTest, AGroupMayComeBeforeTheReportOfItsTokens) {
  WorkerTokenTable table;
  LedgerChanges changes;
  table.Report("w", 1, {.generated = 100, .cut = 10});
  table.Accept("w", 1, 120, changes);
  EXPECT_EQ(AccountOf(table, true), (TokenAccount{.generated = 130, .cut = 10}));
  table.Report("w", 1, {.generated = 150, .cut = 10});
  EXPECT_EQ(AccountOf(table, true), (TokenAccount{.generated = 150, .cut = 10, .parked = 20}));
}

TEST(WorkerTokenTableTest, AnOlderReportChangesNothing) {
  WorkerTokenTable table;
  table.Report("w", 1, {.generated = 100, .cut = 10, .refused = 5});
  const TokenAccount account = AccountOf(table, true);
  table.Report("w", 1, {.generated = 90, .cut = 9, .refused = 4});
  EXPECT_EQ(AccountOf(table, true), account);
}

// Two episodes of 5 tokens, of which the policy sampled 3 and 2; the second has no verdict.
TEST(TokenAccountTest, WhatOthersWroteInAnEpisodeWasNotSampled) {
  v1::GroupHead head = MakeHead(1, {Outcome::kCorrect, Outcome::kUnscorable});
  for (const std::int32_t sampled : {3, 2}) {
    head.add_turns(1);
    head.add_sampled_lengths(sampled);
  }
  head.set_trained_lengths(0, 3);
  GroupRow row;
  row.state = GroupState::kTrained;
  TokenAccount account;
  AddGroup(row, head, account);
  EXPECT_EQ(account, (TokenAccount{.trained = 3, .masked = 2}));
  row.state = GroupState::kReady;
  AddGroup(row, head, account);
  EXPECT_EQ(account, (TokenAccount{.trained = 3, .masked = 2, .parked = 5}));
}

// Each process counts from 0.
TEST(WorkerTokenTableTest, ProcessesOfOneWorkerAddUp) {
  WorkerTokenTable table;
  table.Report("w", 1, {.generated = 100});
  table.Report("w", 2, {.generated = 7});
  TokenAccount account;
  table.AddTo(account,
              [](const std::string&, std::uint64_t incarnation) { return incarnation == 2; });
  EXPECT_EQ(account, (TokenAccount{.generated = 107, .cut = 100, .parked = 7}));
}

TEST(WorkerTokenTableTest, TheRowsOfALedgerContinueTheCount) {
  WorkerTokenTable table;
  LedgerChanges changes;
  table.Report("w", 1, {.generated = 100, .cut = 10, .refused = 20});
  table.Accept("w", 1, 30, changes);
  const WorkerTokenTable restored(changes.worker_tokens);
  EXPECT_EQ(AccountOf(restored, true), AccountOf(table, true));
}

// Completions of 5 tokens, two of which are trained.
TEST(TokenAccountTest, AGroupIsParkedUntilItsStepIsCommitted) {
  const v1::GroupHead head =
      MakeHead(1, {Outcome::kCorrect, Outcome::kWrong, Outcome::kUnscorable});
  LedgerSnapshot snapshot;
  snapshot.accepted[1] = MakeAccepted(head);
  snapshot.worker_tokens = {{"w", 1, 15, 0, 0, 15}};
  for (const GroupState state : {GroupState::kReady, GroupState::kBatched}) {
    snapshot.groups[1].state = state;
    EXPECT_EQ(AccountOf(snapshot), (TokenAccount{.generated = 15, .parked = 15}));
  }
  snapshot.groups[1].state = GroupState::kTrained;
  EXPECT_EQ(AccountOf(snapshot), (TokenAccount{.generated = 15, .trained = 10, .masked = 5}));
  EXPECT_EQ(AccountOf(snapshot).difference(), 0);
}

}  // namespace
}  // namespace buttress
