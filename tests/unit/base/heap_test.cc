#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/os/memory.h"

namespace buttress {
namespace {

std::int64_t ResidentKb() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (std::int64_t kb = 0; word == "RssAnon:" && status >> kb) return kb;
  return 0;
}

// Every second block of 64 kB is freed, so that the others keep the heap from shrinking.
TEST(Heap, FreedMemoryBetweenBlocksGoesBackToTheSystem) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers have a heap of their own";
#endif
  std::vector<std::unique_ptr<std::string>> blocks;
  for (int i = 0; i < 2000; ++i) blocks.push_back(std::make_unique<std::string>(64 << 10, 'x'));
  for (std::size_t i = 0; i < blocks.size(); i += 2) blocks[i].reset();
  const std::int64_t before = ResidentKb();
  ReturnFreedMemory(std::size_t{1} << 30);
  EXPECT_GT(ResidentKb(), before - 8 * 1024);
  ReturnFreedMemory(std::size_t{1} << 20);
  EXPECT_LT(ResidentKb(), before - 40 * 1024);
}

}  // namespace
}  // namespace buttress
