#include "lib/data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>
#include <vector>

#include "lib/base/os/file.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class DatasetTest : public testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& content) {
    const std::string path = JoinPath(folder_.path(), name);
    std::ofstream(path, std::ios::binary) << content;  // without fsync, for thousands of files
    return path;
  }

  static std::string Content(const JsonlFile& file) {
    std::string text(1 << 20, '\0');
    const ssize_t n = ::pread(file.fd(), text.data(), text.size(), 0);
    text.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
    return text;
  }

  static Result<std::string> Convert(const std::string& path, const std::string& cache = "") {
    BUTTRESS_ASSIGN_OR_RETURN(const JsonlFile file, OpenAsJsonl(path, cache));
    return Content(file);
  }

  static std::string ErrorOf(const std::string& path) { return Convert(path).status().message(); }

  TempDir folder_;
};

TEST_F(DatasetTest, AJsonArrayBecomesRows) {
  const std::string path =
      Write("rows.json", "[\n {\"a\": [1, {\"b\": 2}]},\n {\"a\": \"x\\n\"}]\n");
  EXPECT_EQ(*Convert(path), "{\"a\":[1,{\"b\":2}]}\n{\"a\":\"x\\n\"}\n");
  EXPECT_THAT(ErrorOf(Write("a.json", "[{\"a\": 1}, 2]")), HasSubstr("row 2: expected an object"));
  EXPECT_THAT(ErrorOf(Write("b.json", "[{\"a\": 1}, [{}]]")), HasSubstr("row 2: expected an obj"));
  EXPECT_THAT(ErrorOf(Write("c.json", "[{\"a\": 1, \"a\": 2}]")), HasSubstr("'a' appears twice"));
  EXPECT_THAT(ErrorOf(Write("d.json", "[{\"a\": 1}")), HasSubstr("d.json is not JSON"));
  const std::string deep = std::string(100, '[') + std::string(100, ']');
  EXPECT_THAT(ErrorOf(Write("e.json", "[{\"a\": " + deep + "}]")), HasSubstr("nested deeper"));
}

TEST_F(DatasetTest, JsonlStaysAsItIs) {
  const auto file = OpenAsJsonl(Write("rows.json", "{\"a\": 1}\n[2]\n"), "");
  ASSERT_TRUE(file.ok());
  EXPECT_STREQ(file->unit(), "line");
  EXPECT_EQ(Content(*file), "{\"a\": 1}\n[2]\n");
  EXPECT_STREQ(OpenAsJsonl(Write("rows.jsonl", "[2]\n"), "")->unit(), "line");
  EXPECT_THAT(ErrorOf(Write("rows.jsonl.gz", "\x1F\x8B...")), HasSubstr("gunzip"));
  EXPECT_THAT(ErrorOf(JoinPath(folder_.path(), "none")), HasSubstr("cannot open"));
  EXPECT_THAT(ErrorOf(folder_.path()), HasSubstr("a folder without a dataset"));
}

TEST_F(DatasetTest, CsvHasQuotesAndLinesInsideThem) {
  const std::string path = Write("rows.csv",
                                 "\xEF\xBB\xBFquestion,answer\r\n"
                                 "\"1,\r\n\"\"2\"\"\",007\r\n"
                                 "\r\n"
                                 ",\"\"");
  EXPECT_EQ(*Convert(path),
            "{\"question\":\"1,\\r\\n\\\"2\\\"\",\"answer\":\"007\"}\n"
            "{\"question\":\"\",\"answer\":\"\"}\n");
  EXPECT_THAT(ErrorOf(Write("a.csv", "a,b\n\"1\n\",2\n3\n")), HasSubstr("line 4: 1 fields; the"));
  EXPECT_THAT(ErrorOf(Write("b.csv", "a,b\n1,\"2\n")), HasSubstr("line 2: the quotes"));
  EXPECT_THAT(ErrorOf(Write("c.csv", "a\n\"1\"2\n")), HasSubstr("line 2: a quote inside"));
  EXPECT_THAT(ErrorOf(Write("d.csv", "a\n1\"\n")), HasSubstr("line 2: a quote inside"));
  EXPECT_THAT(ErrorOf(Write("e.csv", "a,a\n1,2\n")), HasSubstr("'a' twice"));
  EXPECT_THAT(ErrorOf(Write("f.csv", "a,\n1,2\n")), HasSubstr("without a name"));
  EXPECT_THAT(ErrorOf(Write("g.csv", "a\n\xFF\n")), HasSubstr("line 2: field 1 is not UTF-8"));
  EXPECT_THAT(ErrorOf(Write("h.csv", "")), HasSubstr("expected a first record"));
}

TEST_F(DatasetTest, AConversionIsKeptUnderTheDigestOfTheDataset) {
  const std::string cache = JoinPath(folder_.path(), "run/data");
  const auto files = [&cache] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(cache))
      names.push_back(entry.path().string());
    return names;
  };
  const std::string path = Write("rows.csv", "a\n1\n");
  const std::string rows = *Convert(path, cache);
  ASSERT_EQ(files().size(), 1U);
  EXPECT_EQ(*ReadFile(files().front()), rows);
  ASSERT_TRUE(WriteFileAtomic(files().front(), "kept\n").ok());
  EXPECT_EQ(*Convert(path, cache), "kept\n");
  EXPECT_EQ(*Convert(Write("rows.csv", "a\n2\n"), cache), "{\"a\":\"2\"}\n");
  EXPECT_EQ(files().size(), 2U);
  EXPECT_FALSE(Convert(Write("bad.csv", "a\n1,2\n"), cache).ok());
  EXPECT_EQ(files().size(), 2U) << "a failed conversion leaves nothing";
}

TEST_F(DatasetTest, TruncatedAndDamagedTextsAreErrorsOrOtherRows) {
  const std::string array = "[{\"a\": \"\xC3\xB6\", \"b\": [1, null]}, {\"a\": 2}]";
  const std::string csv = "a,b\n\"x,\ny\",\xC3\xB6\n1,2\n";
  for (std::size_t at = 0; at < std::max(array.size(), csv.size()); ++at) {
    if (at > 0 && at < array.size()) {
      EXPECT_FALSE(Convert(Write("cut.json", array.substr(0, at))).ok()) << at;
    }
    Convert(Write("cut.csv", csv.substr(0, at))).status().IgnoreError();
    for (int bit = 0; bit < 8; ++bit) {
      for (const auto& [name, whole] : {std::pair("flip.json", array), {"flip.csv", csv}}) {
        std::string flipped = whole;
        flipped[at % whole.size()] ^= static_cast<char>(1 << bit);
        const auto rows = Convert(Write(name, flipped));
        std::istringstream lines(rows.ok() && *rows != flipped ? *rows : "");
        for (std::string line; std::getline(lines, line);)
          EXPECT_TRUE(json::accept(line)) << flipped << "\n" << line;
      }
    }
  }
}

// The files of tests/golden/make_columns.py.
class ColumnsTest : public DatasetTest {
 protected:
  void SetUp() override {
    if (!kHasArrow) GTEST_SKIP() << "built without Arrow; run deploy/setup.sh";
  }

  static std::string Golden(const std::string& name) {
    return JoinPath(BUTTRESS_SOURCE_DIR "/tests/golden/columns", name);
  }

  static std::vector<json> Rows(const std::string& path) {
    const auto text = Convert(path);
    EXPECT_TRUE(text.ok()) << text.status().ToString();
    std::vector<json> rows;
    std::istringstream lines(text.ok() ? *text : "");
    for (std::string line; std::getline(lines, line);) rows.push_back(json::parse(line));
    return rows;
  }

  static std::vector<int> Indices(const std::string& path) {
    std::vector<int> indices;
    for (const json& row : Rows(path)) indices.push_back(row["extra_info"]["index"].get<int>());
    return indices;
  }

  static constexpr bool kHasArrow = BUTTRESS_HAS_ARROW;
};

TEST_F(ColumnsTest, ParquetOfVerlBecomesItsRows) {
  const auto rows = Rows(Golden("verl.parquet"));
  ASSERT_EQ(rows.size(), 5U);
  EXPECT_EQ(rows[4], json::parse(R"({
    "data_source": "sums",
    "prompt": [{"role": "system", "content": "Add."}, {"role": "user", "content": "4+1?"}],
    "reward_model": {"style": "rule", "ground_truth": "5"},
    "extra_info": {"index": 4, "split": null}})"));
}

TEST_F(ColumnsTest, EveryTypeHasAFormInJson) {
  auto rows = Rows(Golden("types.arrow"));
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0], json::parse(R"({
    "text": "a", "large": "a", "view": "a", "choice": "a", "byte": -128,
    "long": -9223372036854775808, "unsigned": 18446744073709551615, "half": 0.5, "double": 0.1,
    "flag": true, "nothing": null, "when": "2026-01-02 03:04:05.000", "day": "2026-01-02",
    "price": "1.50", "list": ["x", null], "pair": [1, 2], "map": {"k": 1},
    "deep": {"a": [{"b": {"c": 0}}]}})"));
  EXPECT_EQ(rows[1]["double"], nullptr) << "NaN";
  EXPECT_EQ(rows[2]["choice"], "ö\n\"");
  EXPECT_EQ(rows[2]["list"], nullptr);
  for (json& row : rows) row.erase("half");  // not in the Parquet file
  EXPECT_EQ(Rows(Golden("types.parquet")), rows);
}

TEST_F(ColumnsTest, FoldersAreReadShardByShard) {
  EXPECT_THAT(Indices(Golden("saved")), ElementsAre(0, 1, 10, 11));
  EXPECT_THAT(Indices(Golden("hub/data/train")), ElementsAre(0, 1, 10, 11));
  EXPECT_THAT(Indices(Golden("hub/data/test")), ElementsAre(0, 1));
  EXPECT_THAT(ErrorOf(Golden("hub")),
              HasSubstr("several splits; name one:\n  " + Golden("hub/data/test") + "\n  "));
}

TEST_F(ColumnsTest, DamagedFilesAndBinaryColumnsAreRefused) {
  EXPECT_THAT(ErrorOf(Golden("binary.parquet")), HasSubstr("column 'bytes': type binary"));
  const std::string stream = "saved/data-00000-of-00002.arrow";
  const std::vector<std::string> names = {"types.parquet", "types.arrow", stream};
  for (const std::string& name : names) {
    const std::string whole = *ReadFile(Golden(name));
    const std::string damaged = "damaged" + name.substr(name.rfind('.'));
    for (std::size_t at = 0; at < whole.size(); at += 122) {
      // A stream may end after any batch; the other formats have a footer.
      const auto cut = Convert(Write(damaged, whole.substr(0, at)));
      EXPECT_TRUE(name == stream || !cut.ok()) << name << ", " << at << " bytes";
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ 0x55);
      // An error or other values: what Arrow lets pass is checked before it is read.
      EXPECT_THAT(ErrorOf(Write(damaged, flipped)), Not(HasSubstr("signal"))) << name << at;
    }
    const auto half = Convert(Write(damaged, whole.substr(0, whole.size() / 2)));
    EXPECT_EQ(half.status().code(), StatusCode::kInvalidArgument) << name;
  }
}

}  // namespace
}  // namespace buttress
