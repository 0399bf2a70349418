// Runs the suite over MPI, on every rank of mpirun. With `--stuck-rank MODE` or `--watched MODE` it
// tests a missing rank instead (gone_rank.h); with `--until-failure` it sums until the network
// between the ranks fails.
#include <sched.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <vector>

#include "tests/unit/collectives/collective_suite.h"
#include "tests/unit/collectives/gone_rank.h"

namespace buttress {
namespace {

// The gather is too large for what MPI sends ahead of a receiver that does not call it.
TEST(MpiTest, DataMovesWhileTheRankComputes) {
  constexpr std::size_t kCount = 4 << 20;
  Collective& group = *TheBackend().control;
  const auto size = static_cast<std::size_t>(group.size());
  std::vector<float> own(kCount, 1), all(kCount * size, 0);
  const auto work = group.AllGather({own.data(), std::ssize(own)}, {all.data(), std::ssize(all)});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(15);
  for (std::size_t rank = 0; rank < size; ++rank) {
    std::atomic_ref<float> last(all[(rank + 1) * kCount - 1]);
    while (last.load() != 1 && std::chrono::steady_clock::now() < deadline) ::sched_yield();
    EXPECT_EQ(last.load(), 1) << "of rank " << rank;
  }
  EXPECT_TRUE(work->Wait(std::chrono::seconds(20)).ok());
}

// Sums until a call fails, then prints one line and returns exit code 3.
int RunUntilFailure(Collective& group) {
  std::fprintf(stderr, "rank %d is there\n", group.rank());
  Status status;
  while (status.ok()) {
    float value = 1;
    status = group.AllReduceSum({&value, 1})->Wait(kGoneRankDeadline);
  }
  std::fprintf(stderr, "rank %d leaves: %s\n", group.rank(), status.ToString().c_str());
  return ExitCode(status);
}

int Main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  constexpr std::chrono::seconds kTimeout{20};
  auto group = MakeMpiCollective(kTimeout);
  if (!group.ok()) {
    std::fprintf(stderr, "%s\n", group.status().ToString().c_str());
    return 1;
  }
  CpuMemory memory;
  if (argc == 3 && std::strcmp(argv[1], "--stuck-rank") == 0)
    return RunWithoutLastRank(**group, memory, argv[2]);
  if (argc == 3 && std::strcmp(argv[1], "--watched") == 0) return RunWatched(**group, argv[2]);
  if (argc == 2 && std::strcmp(argv[1], "--until-failure") == 0) return RunUntilFailure(**group);
  TheBackend() = {group->get(), group->get(), &memory};
  const int failed = RUN_ALL_TESTS();
  if (failed != 0) (*group)->Abort();
  return failed;
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) { return buttress::Main(argc, argv); }
