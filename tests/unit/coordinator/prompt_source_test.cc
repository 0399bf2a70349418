#include "coordinator/prompt_source.h"

#include <gtest/gtest.h>

#include <set>

#include "lib/base/file.h"
#include "tests/support/byte_tokenizer.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

constexpr std::int64_t kRows = 50;

class PromptSourceTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string jsonl;
    for (int i = 0; i < kRows; ++i) {
      jsonl += "{\"id\": \"p" + std::to_string(i) + "\", \"prompt\": \"x\", \"answer\": \"1\"}\n";
    }
    file_ = Open(jsonl);
  }

  std::unique_ptr<PromptFile> Open(const std::string& jsonl) {
    const std::string path = JoinPath(folder_.path(), "prompts.jsonl");
    EXPECT_TRUE(WriteFileAtomic(path, jsonl).ok());
    auto file = PromptFile::Open(path, DataConfig(), tokenizer_);
    EXPECT_TRUE(file.ok()) << file.status().ToString();
    return *std::move(file);
  }

  static std::vector<std::string> Ids(PromptSource& source, std::int64_t count) {
    const auto drawn = source.Draw(count);
    EXPECT_TRUE(drawn.ok());
    std::vector<std::string> ids;
    for (const DrawnPrompt& prompt : *drawn) ids.push_back(prompt.prompt_id);
    return ids;
  }

  TempDir folder_;
  ByteTokenizer tokenizer_;
  std::unique_ptr<PromptFile> file_;
};

TEST_F(PromptSourceTest, APassDrawsEveryPromptOnceAndTheNextOneInAnotherOrder) {
  PromptSource source(*file_, {7, true, 4});
  const auto first = Ids(source, kRows);
  const auto second = Ids(source, kRows);
  EXPECT_EQ(std::set<std::string>(first.begin(), first.end()).size(),
            static_cast<std::size_t>(kRows));
  EXPECT_EQ(std::set<std::string>(second.begin(), second.end()).size(),
            static_cast<std::size_t>(kRows));
  EXPECT_NE(first, second);
}

TEST_F(PromptSourceTest, WithoutShufflingTheOrderIsTheFiles) {
  PromptSource source(*file_, {7, false, 4});
  EXPECT_EQ(Ids(source, 3), (std::vector<std::string>{"p0", "p1", "p2"}));
}

TEST_F(PromptSourceTest, TheOrderFollowsFromTheSeed) {
  PromptSource a(*file_, {7, true, 4}), b(*file_, {7, true, 4}), c(*file_, {8, true, 4});
  const auto ids = Ids(a, kRows);
  EXPECT_EQ(ids, Ids(b, kRows));
  EXPECT_NE(ids, Ids(c, kRows));
}

TEST_F(PromptSourceTest, ResumingAtACursorGivesWhatWouldHaveComeNext) {
  for (const std::int64_t before : {std::int64_t{0}, std::int64_t{13}, kRows, kRows + 21}) {
    PromptSource source(*file_, {7, true, 4});
    Ids(source, before);
    PromptSource resumed(*file_, {7, true, 4});
    ASSERT_TRUE(resumed.Resume(source.cursor()).ok());
    EXPECT_EQ(Ids(resumed, 30), Ids(source, 30)) << before;
  }
}

TEST_F(PromptSourceTest, ADrawnPromptCanBeTakenMoreThanOnce) {
  PromptSource source(*file_, {7, true, 4});
  const auto drawn = source.Draw(1);
  ASSERT_TRUE(drawn.ok());
  EXPECT_EQ(drawn->front().completions, 4);
  for (int i = 0; i < 2; ++i) {
    const auto prompt = source.Take(drawn->front());
    ASSERT_TRUE(prompt.ok());
    EXPECT_EQ(prompt->id, drawn->front().prompt_id);
  }
}

TEST_F(PromptSourceTest, AnotherDatasetUnderARunIsRefused) {
  PromptSource source(*file_, {7, true, 4});
  const auto drawn = source.Draw(kRows);
  ASSERT_TRUE(drawn.ok());
  const auto other = Open("{\"id\": \"other\", \"prompt\": \"x\", \"answer\": \"1\"}\n");
  PromptSource resumed(*other, {7, true, 4});
  EXPECT_EQ(resumed.Resume(source.cursor()).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(resumed.Take(drawn->front()).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace buttress
