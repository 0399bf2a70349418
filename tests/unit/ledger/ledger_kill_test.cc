// Tests that an acknowledged group is durable when the process is killed.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "lib/ledger/ledger.h"
#include "lib/ledger/payload_store.h"
#include "tests/support/temp_dir.h"

extern char** environ;

namespace buttress {
namespace {

// Runs the writer until it has acknowledged at least `wanted` groups, kills it, and returns all
// acknowledgements that it gave.
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

TEST(LedgerKill, EveryAcknowledgedGroupSurvivesKillNine) {
  TempDir folder;
  std::int64_t acknowledged = 0;
  for (std::int64_t round = 0; round < 6; ++round) {
    acknowledged += WriteAndKill(folder.path(), 1 + 13 * round);
    const std::unique_ptr<Ledger> ledger = *Ledger::Open(folder.path() + "/ledger.db");
    const LedgerSnapshot snapshot = *ledger->Load();
    const auto durable = static_cast<std::int64_t>(snapshot.accepted.size());
    ASSERT_GE(durable, acknowledged);
    // In each round one group may be durable without its acknowledgement.
    ASSERT_LE(durable, acknowledged + 1 + round);
    ASSERT_EQ(snapshot.collapse.at("s").groups, durable);
    const std::unique_ptr<PayloadStore> payloads =
        *PayloadStore::Open(folder.path() + "/payloads", ledger->payload_end(), 4096);
    for (const auto& [id, accepted] : snapshot.accepted) {
      ASSERT_EQ(*payloads->Read(accepted.payload), "payload of group " + std::to_string(id));
    }
  }
}

}  // namespace
}  // namespace buttress
