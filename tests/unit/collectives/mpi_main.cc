// The suite over MPI, on every rank of mpirun; and, with `--stuck-rank MODE`, what the others say of a rank that is gone: `dead` (it ends
// without a word) or `stuck` (it makes no call).
#include <poll.h>
#include <signal.h>

#include <cstdio>
#include <cstring>
#include <string_view>

#include "tests/unit/collectives/collective_suite.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kDeadline{1500};

// The last rank does not take part. Exit 3 with one line on each of the others.
int RunWithoutLastRank(Collective& group, std::string_view mode) {
  if (group.rank() == group.size() - 1) {
    if (mode == "dead") ::raise(SIGKILL);
    // Makes no call until the others have given up.
    ::poll(nullptr, 0, static_cast<int>(2 * kDeadline.count()));
    group.Abort();
    return 0;
  }
  float value = 1;
  const Status status = group.AllReduceSum({&value, 1})->Wait(kDeadline);
  std::fprintf(stderr, "rank %d leaves: %s\n", group.rank(), status.ToString().c_str());
  const Status next = group.Barrier();  // refused, not waited for
  if (status.code() != StatusCode::kDeadlineExceeded || next.code() != StatusCode::kAborted)
    return 1;
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
  if (argc == 3 && std::strcmp(argv[1], "--stuck-rank") == 0)
    return RunWithoutLastRank(**group, argv[2]);
  CpuMemory memory;
  TheBackend() = {group->get(), group->get(), &memory};
  const int failed = RUN_ALL_TESTS();
  if (failed != 0) (*group)->Abort();
  return failed;
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) { return buttress::Main(argc, argv); }
