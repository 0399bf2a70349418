// A folder with files of the kernel, /proc and /sys, as a test wants them.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {

class SystemRootTest : public testing::Test {
 protected:
  // `path` begins with "proc/" or "sys/".
  void Write(const std::string& path, const std::string& text) {
    const std::string whole = root + path;
    ASSERT_TRUE(MakeFolders(whole.substr(0, whole.rfind('/'))).ok());
    ASSERT_TRUE(WriteFileAtomic(whole, text).ok());
  }

  const TempDir dir;
  const std::string root = dir.path() + "/";
};

}  // namespace buttress
