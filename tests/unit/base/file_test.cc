#include "lib/base/os/file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

TEST(FileTest, AWrittenFileReadsBackAndLeavesNoPartBehind) {
  const TempDir dir;
  const std::string path = JoinPath(dir.path(), "a");
  ASSERT_TRUE(WriteFileAtomic(path, "one").ok());
  ASSERT_TRUE(WriteFileAtomic(path, "two").ok());
  EXPECT_EQ(*ReadFile(path), "two");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
}

TEST(FileTest, MissingFilesFoldersAndLargeFilesHaveDifferentErrorCodes) {
  const TempDir dir;
  const std::string path = JoinPath(dir.path(), "a");
  EXPECT_EQ(ReadFile(path).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ReadFile(dir.path()).status().code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(WriteFileAtomic(path, "12345").ok());
  EXPECT_EQ(ReadFile(path, 4).status().code(), StatusCode::kResourceExhausted);
}

TEST(FileTest, WritingIntoAMissingFolderNamesIt) {
  const TempDir dir;
  const Status status = WriteFileAtomic(JoinPath(dir.path(), "none/a"), "x");
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("none/a"), std::string::npos);
}

}  // namespace
}  // namespace buttress
