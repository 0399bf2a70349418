#include "lib/verify/remote/python_modules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

class PythonModulesTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& source) {
    const std::string path = JoinPath(dir_.path(), name);
    EXPECT_TRUE(MakeFolders(path.substr(0, path.rfind('/'))).ok());
    EXPECT_TRUE(WriteFileAtomic(path, source).ok());
    return path;
  }

  // The names of the modules of rewards/rew.py, without its folder.
  std::vector<std::string> ModulesOf(const std::string& source) {
    std::vector<std::string> names;
    const std::string file = Write("rewards/rew.py", source);
    for (const std::string& path : LocalModules(file))
      names.push_back(path.substr(dir_.path().size() + std::string("/rewards/").size()));
    return names;
  }

  TempDir dir_;
};

TEST_F(PythonModulesTest, EveryFormOfImportIsFollowedBelowTheFolder) {
  Write("rewards/plain.py", "def f():\n    import lazy\n");
  Write("rewards/lazy.py", "");
  Write("rewards/aliased.py", "");
  Write("rewards/taken.py", "");
  Write("rewards/never.py", "");
  Write("rewards/pack/__init__.py", "from . import inner\n");
  Write("rewards/pack/inner.py", "from ..up import x\nfrom .twin import y as z\n");
  Write("rewards/pack/twin.py", "import pack.inner\n");
  Write("rewards/pack/unused.py", "");
  Write("rewards/up.py", "");
  Write("rewards/bare/module.py", "");
  EXPECT_THAT(
      ModulesOf("import json, plain as p  # and never\n"
                "try: import aliased\nexcept ImportError: pass\n"
                "from taken import (\n    a,  # first\n    b)\n"
                "from pack import (inner,\n  other)\n"
                "from bare \\\n  import module\n"),
      testing::ElementsAre("rew.py", "aliased.py", "bare/module.py", "lazy.py", "pack/__init__.py",
                           "pack/inner.py", "pack/twin.py", "plain.py", "taken.py", "up.py"));
}

TEST_F(PythonModulesTest, ModulesOutsideOfTheFolderAreNoneOfIt) {
  Write("outside.py", "");
  EXPECT_THAT(ModulesOf("import os, outside\nfrom .. import outside\nimport\nfrom x\n"),
              testing::ElementsAre("rew.py"));
  EXPECT_EQ(LocalModules("/no/such/file.py"), std::vector<std::string>{"/no/such/file.py"});
}

}  // namespace
}  // namespace buttress
