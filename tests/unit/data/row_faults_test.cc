#include "lib/data/row_faults.h"

#include <gmock/gmock.h>

#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RowFaultsTest, EqualFaultsAreOneLineWithTheirNumberAndFirstRows) {
  RowFaults faults("line");
  faults.Add(1, "not JSON");
  for (int i = 2; i <= 301; ++i) faults.Add(i, "no field 'answer'");
  faults.Add(302, "is empty");
  faults.Add(303, "is empty");
  EXPECT_EQ(faults.Finish("train.jsonl", 500).message(),
            "train.jsonl: 303 of 500 rows cannot be used:\n"
            "  line 1: not JSON\n"
            "  300 rows: no field 'answer': lines 2, 3, 4, 5, 6, ...\n"
            "  2 rows: is empty: lines 302, 303");
}

TEST(RowFaultsTest, TheFileHasAllOfThemAndEndsTheMessage) {
  const TempDir dir;
  const std::string log = JoinPath(dir.path(), "data/bad_rows.txt");
  RowFaults faults("row", log);
  EXPECT_TRUE(faults.Finish("train.csv", 500).ok());
  for (int i = 1; i <= 300; ++i) faults.Add(i, "fault " + std::to_string(i % 150));
  const Status status = faults.Finish("train.csv", 500);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("train.csv: 300 of 500 rows cannot be used:\n"
                                          "  2 rows: fault 1: rows 1, 151\n  2 rows: "));
  EXPECT_THAT(status.message(), HasSubstr("\n  2 rows: fault 5: rows 5, 155\n"
                                          "  ... and 290 rows with other faults\n"));
  EXPECT_THAT(status.message(), EndsWith("\nall of them: " + log));
  const std::string all = *ReadFile(log);
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 300);
  EXPECT_THAT(all, EndsWith("row 300: fault 0\n"));
}

TEST(RowFaultsTest, WithoutAFileTheMessageHasMoreOfThem) {
  RowFaults faults("line");
  for (int i = 1; i <= 21; ++i) faults.Add(i, "is " + std::to_string(i));
  EXPECT_THAT(faults.Finish("a", 30).message(),
              HasSubstr("line 20: is 20\n  ... and 1 row with other faults"));
}

TEST(RowFaultsTest, AFileThatCannotBeWrittenIsSaid) {
  RowFaults faults("line", "/proc/none/bad_rows.txt");
  faults.Add(1, "is bad");
  EXPECT_THAT(faults.Finish("a", 3).message(), HasSubstr("could not be written to /proc/none"));
  EXPECT_THAT(faults.Finish("a", 3).message(), Not(HasSubstr("all of them")));
}

}  // namespace
}  // namespace buttress
