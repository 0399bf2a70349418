#include "lib/data/row_faults.h"

#include <gmock/gmock.h>

#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RowFaultsTest, TheFileHasAllOfThemAndEndsTheMessage) {
  const TempDir dir;
  const std::string log = JoinPath(dir.path(), "data/bad_rows.txt");
  RowFaults faults(log);
  EXPECT_TRUE(faults.Finish("train.jsonl", 500).ok());
  for (int i = 1; i <= 300; ++i) faults.Add("line " + std::to_string(i), "no field 'answer'");
  const Status status = faults.Finish("train.jsonl", 500);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("train.jsonl: 300 of 500 rows cannot be used:\n"
                                          "  line 1: no field 'answer'\n  line 2: "));
  EXPECT_THAT(status.message(), HasSubstr("\n  line 5: no field 'answer'\n  ... and 295 more\n"));
  EXPECT_THAT(status.message(), EndsWith("\nall of them: " + log));
  const std::string all = *ReadFile(log);
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 300);
  EXPECT_THAT(all, EndsWith("line 300: no field 'answer'\n"));
}

TEST(RowFaultsTest, WithoutAFileTheMessageHasMoreOfThem) {
  RowFaults faults;
  for (int i = 1; i <= 22; ++i) faults.Add("line " + std::to_string(i), "is bad");
  EXPECT_THAT(faults.Finish("a", 30).message(), HasSubstr("line 20: is bad\n  ... and 2 more"));
}

TEST(RowFaultsTest, AFileThatCannotBeWrittenIsSaid) {
  RowFaults faults("/proc/none/bad_rows.txt");
  faults.Add("line 1", "is bad");
  EXPECT_THAT(faults.Finish("a", 3).message(), HasSubstr("could not be written to /proc/none"));
  EXPECT_THAT(faults.Finish("a", 3).message(), Not(HasSubstr("all of them")));
}

}  // namespace
}  // namespace buttress
