#include "lib/data/json_rows.h"

#include <gmock/gmock.h>

#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class JsonRowsTest : public ::testing::Test {
 protected:
  Status Read(const std::string& text, std::vector<JsonRow>& rows) const {
    const std::string path = JoinPath(dir_.path(), "rows.jsonl");
    EXPECT_TRUE(WriteFileAtomic(path, text).ok());
    return ForEachJsonRow(path, [&rows](JsonRow row) -> Status {
      if (row.fields.contains("bad")) return InvalidArgument("is bad; fix it");
      rows.push_back(std::move(row));
      return OkStatus();
    });
  }

  TempDir dir_;
};

TEST_F(JsonRowsTest, RowsComeInOrderWithTheirIdAndItsType) {
  std::vector<JsonRow> rows;
  ASSERT_TRUE(Read("{\"id\": \"a\"}\n\n{\"x\": 1}\n{\"id\": [7]}", rows).ok());
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[0].id, "a");
  EXPECT_EQ(rows[1].id, 3);
  EXPECT_EQ(rows[1].line, 3);
  EXPECT_EQ(rows[2].id.dump(), "[7]");
}

TEST_F(JsonRowsTest, EveryBadRowIsNamedByItsLine) {
  std::vector<JsonRow> rows;
  const Status status = Read("{\"id\": 1}\n[1]\n{\"bad\": 1}\n{\"id\": ", rows);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(
      status.message(),
      AllOf(HasSubstr("rows.jsonl: 3 of 4 rows"),
            HasSubstr("line 2: not a JSON object: it is of the type array; expected one"),
            HasSubstr("line 4: not a JSON object: it breaks off"), HasSubstr("line 3: is bad")));
}

TEST_F(JsonRowsTest, TheFaultOfALineIsSaid) {
  std::vector<JsonRow> rows;
  const auto fault = [&](const std::string& line) { return Read(line, rows).message(); };
  EXPECT_THAT(fault("{\"x\": NaN}"), HasSubstr("it has NaN, which JSON has not; write null"));
  EXPECT_THAT(fault("{\"x\": -Infinity}"), HasSubstr("it has Infinity, which JSON has not"));
  EXPECT_THAT(fault("{\"NaN\": x}"), HasSubstr("byte 9 is no JSON"));
  EXPECT_THAT(fault("{\"x\": 1e999}"), HasSubstr("it has a number beyond all bounds"));
  EXPECT_THAT(fault("{\"x\": \"\xff\"}"), HasSubstr("byte 8 is not UTF-8"));
  EXPECT_THAT(fault("5"), HasSubstr("it is of the type number"));
  EXPECT_THAT(fault("{\n{"),
              AllOf(HasSubstr("2 rows: not a JSON object"), HasSubstr("lines 1, 2")));
}

TEST_F(JsonRowsTest, AnEmptyFileAndAMissingOneAreErrors) {
  std::vector<JsonRow> rows;
  EXPECT_EQ(Read("\n \n", rows).code(), StatusCode::kInvalidArgument);
  const auto ignore = [](const JsonRow&) { return OkStatus(); };
  EXPECT_EQ(ForEachJsonRow(dir_.path() + "/none", ignore).code(), StatusCode::kInvalidArgument);
}

TEST_F(JsonRowsTest, OtherFormatsAreReadAndTheirRowsNumbered) {
  const std::string path = JoinPath(dir_.path(), "rows.csv");
  ASSERT_TRUE(WriteFileAtomic(path, "x,id\n1,a\n2,b\n").ok());
  std::string seen;
  const Status status = ForEachJsonRow(path, [&seen](const JsonRow& row) -> Status {
    seen += row.fields["x"].get<std::string>() + row.id.get<std::string>();
    return row.line == 2 ? InvalidArgument("is bad") : OkStatus();
  });
  EXPECT_EQ(seen, "1a2b");
  EXPECT_THAT(status.message(), AllOf(HasSubstr("rows.csv: 1 of 2 rows"), HasSubstr("row 2: is")));
}

TEST_F(JsonRowsTest, DeepNestingIsRefused) {
  std::vector<JsonRow> rows;
  const std::string deep = "{\"x\": " + std::string(5000, '[') + std::string(5000, ']') + "}";
  EXPECT_THAT(Read(deep, rows).message(), HasSubstr("nested deeper"));
}

TEST_F(JsonRowsTest, TokenIdsAreCheckedAgainstTheVocabulary) {
  const auto ids = [](const char* text) {
    JsonRow row;
    row.fields = nlohmann::ordered_json::parse(text);
    return TokenIdsOf(row, 10);
  };
  EXPECT_EQ(*ids(R"({"token_ids": [0, 9]})"), (std::vector<std::int32_t>{0, 9}));
  EXPECT_THAT(ids(R"({"token_ids": [0, 10]})").status().message(), HasSubstr("token_ids[1] = 10"));
  for (const char* bad :
       {R"({})", R"({"token_ids": []})", R"({"token_ids": 3})", R"({"token_ids": [-1]})",
        R"({"token_ids": [1.0]})", R"({"token_ids": ["1"]})"}) {
    EXPECT_FALSE(ids(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace buttress
