// Tests that an acknowledged group is durable when the process is killed, or the power fails.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "lib/ledger/ledger.h"
#include "lib/ledger/payload_store.h"
#include "tests/support/runs/power_cut.h"
#include "tests/support/temp_dir.h"

extern char** environ;

namespace buttress {
namespace {

constexpr std::int64_t kGroupsOfATurn = 3;  // of the writer

const std::string sync_log = LogSyncs("ledger_kill_test");

// Runs the writer until it has acknowledged at least `wanted` groups or dies, kills it, and returns
// all acknowledgements that it gave.
std::int64_t WriteAndKill(const std::string& folder, std::int64_t wanted) {
  std::array<int, 2> pipe_ends{};
  EXPECT_EQ(pipe(pipe_ends.data()), 0);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, pipe_ends[0]);
  std::string program = BUTTRESS_WRITER;
  std::string argument = folder;
  std::array<char*, 3> arguments = {program.data(), argument.data(), nullptr};
  pid_t child = 0;
  EXPECT_EQ(posix_spawn(&child, program.c_str(), &actions, nullptr, arguments.data(), environ), 0);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  std::int64_t acknowledged = 0;
  std::array<char, 256> bytes{};
  while (const ssize_t count = read(pipe_ends[0], bytes.data(), bytes.size())) {
    if (count < 0) break;
    acknowledged += count;
    if (acknowledged >= wanted) kill(child, SIGKILL);
  }
  close(pipe_ends[0]);
  int state = 0;
  waitpid(child, &state, 0);
  EXPECT_TRUE(WIFSIGNALED(state));
  return acknowledged;
}

void ExpectPayloads(const std::string& folder, const LedgerSnapshot& snapshot) {
  const PayloadReader payloads(folder + "/payloads");
  for (const auto& [id, accepted] : snapshot.accepted) {
    const Result<std::string> payload = payloads.Read(accepted.payload);
    ASSERT_TRUE(payload.ok()) << payload.status().ToString();
    EXPECT_EQ(*payload, "payload of group " + std::to_string(id));
  }
}

// A checkpoint and the early end that came with it are both in the ledger or neither.
void ExpectEndWithItsCheckpoint(const LedgerSnapshot& snapshot) {
  ASSERT_EQ(snapshot.early_end.has_value(), !snapshot.checkpoints.empty());
  if (!snapshot.early_end) return;
  EXPECT_EQ(snapshot.early_end->step, snapshot.checkpoints.back().step);
  EXPECT_EQ(snapshot.early_end->reason, "nothing left to learn");
}

// The writer is killed at each of its writes and syncs, and the power fails at once: what was not
// synced is gone, also of SQLite's files (tests/support/fakes/volatile_vfs.h).
TEST(LedgerKill, EveryAcknowledgedGroupSurvivesAPowerFailureAtEveryPoint) {
  constexpr std::int64_t kWanted = 40;  // several segments
  for (const std::string point :
       {"payload_write", "payload_sync", "payload_roll", "payload_folder_sync", "payload_truncate",
        "ledger_commit", "ledger_committed", "sqlite_write", "sqlite_truncate", "sqlite_sync",
        "sqlite_synced"}) {
    // The first ones are reached while a ledger that was killed is opened again, twice.
    for (const int count : {1, 2, 5, 12}) {
      TempDir folder;
      std::filesystem::resize_file(sync_log, 0);
      ::setenv("BUTTRESS_FAILPOINTS", (point + ":crash:" + std::to_string(count)).c_str(), 1);
      std::int64_t acknowledged = 0;
      for (std::int64_t round = 0; round < 3; ++round) {
        acknowledged += WriteAndKill(folder.path(), kWanted);
        PowerCut(sync_log).Apply(folder.path());
        const LedgerSnapshot snapshot = *(*Ledger::Open(folder.path() + "/ledger.db"))->Load();
        SCOPED_TRACE(point + " for the time " + std::to_string(count));
        const auto durable = static_cast<std::int64_t>(snapshot.accepted.size());
        ASSERT_GE(durable, acknowledged);
        ASSERT_LE(durable, acknowledged + kGroupsOfATurn * (1 + round));
        ExpectPayloads(folder.path(), snapshot);
        ExpectEndWithItsCheckpoint(snapshot);
        if (testing::Test::HasFailure()) return;
      }
      EXPECT_TRUE(count > 1 || acknowledged < 3 * kWanted) << point << " was never reached";
    }
  }
  ::unsetenv("BUTTRESS_FAILPOINTS");
}

}  // namespace
}  // namespace buttress
