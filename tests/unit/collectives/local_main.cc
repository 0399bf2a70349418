// Runs the suite over the local back end.
#include "tests/unit/collectives/collective_suite.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const auto group = buttress::MakeLocalCollective();
  buttress::CpuMemory memory;
  buttress::TheBackend() = {group.get(), group.get(), &memory};
  return RUN_ALL_TESTS();
}
