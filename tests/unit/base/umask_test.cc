#include <gtest/gtest.h>
#include <sys/stat.h>

#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

mode_t ModeOf(const std::string& path) {
  struct stat info {};

  EXPECT_EQ(::stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

// What a folder and a file get under `umask`.
std::pair<mode_t, mode_t> ModesUnder(mode_t umask) {
  const TempDir dir;
  const mode_t before = ::umask(umask);
  TightenUmask();
  const std::string folder = dir.path() + "/run/payloads";
  EXPECT_TRUE(MakeFolders(folder).ok());
  EXPECT_TRUE(WriteFileAtomic(folder + "/a", "x").ok());
  EXPECT_EQ(ModeOf(dir.path() + "/run"), ModeOf(folder));
  const std::pair modes(ModeOf(folder), ModeOf(folder + "/a"));
  ::umask(before);
  return modes;
}

TEST(UmaskTest, OthersGetNothingUnderAnyUmask) {
  EXPECT_EQ(ModesUnder(0), std::pair(mode_t{0750}, mode_t{0640}));
  EXPECT_EQ(ModesUnder(022), std::pair(mode_t{0750}, mode_t{0640}));
}

TEST(UmaskTest, AStricterUmaskStays) {
  EXPECT_EQ(ModesUnder(077), std::pair(mode_t{0700}, mode_t{0600}));
}

}  // namespace
}  // namespace buttress
