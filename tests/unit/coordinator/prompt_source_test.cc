#include "coordinator/prompt_source.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "lib/base/os/file.h"
#include "tests/support/fakes/byte_tokenizer.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

constexpr std::int64_t kRows = 50;

using Records = std::map<std::uint64_t, PromptRecord>;  // by row

PromptMemory MemoryOf(const Records& records) {
  const auto find = [&records](std::uint64_t row) -> Result<PromptRecord> {
    const auto found = records.find(row);
    return found == records.end() ? PromptRecord() : found->second;
  };
  return {find, {}};
}

const Records kNoRecords;
const PromptMemory kNoMemory = MemoryOf(kNoRecords);

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
    auto file = PromptFile::Open(path, config_, tokenizer_);
    EXPECT_TRUE(file.ok()) << file.status().ToString();
    return *std::move(file);
  }

  static std::vector<std::string> Ids(PromptSource& source, std::int64_t count) {
    const auto drawn = source.Draw(count, kNoMemory);
    EXPECT_TRUE(drawn.ok());
    std::vector<std::string> ids;
    for (const DrawnPrompt& prompt : drawn->prompts) ids.push_back(prompt.prompt_id);
    return ids;
  }

  TempDir folder_;
  DataConfig config_;
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

TEST_F(PromptSourceTest, ResumingAtACursorDrawsTheNextPrompts) {
  for (const std::int64_t before : {std::int64_t{0}, std::int64_t{13}, kRows, kRows + 21}) {
    PromptSource source(*file_, {7, true, 4});
    Ids(source, before);
    PromptSource resumed(*file_, {7, true, 4});
    ASSERT_TRUE(resumed.Resume(source.cursor()).ok());
    EXPECT_EQ(Ids(resumed, 30), Ids(source, 30)) << before;
  }
}

TEST_F(PromptSourceTest, ADrawnPromptCanBeReadMoreThanOnce) {
  PromptSource source(*file_, {7, true, 4});
  const auto drawn = source.Draw(1, kNoMemory);
  ASSERT_TRUE(drawn.ok());
  EXPECT_EQ(drawn->prompts.front().completions, 4);
  for (int i = 0; i < 2; ++i) {
    const auto prompt = source.Read(drawn->prompts.front());
    ASSERT_TRUE(prompt.ok());
    EXPECT_EQ(prompt->id, drawn->prompts.front().prompt_id);
  }
}

TEST_F(PromptSourceTest, AnotherDatasetUnderARunIsRefused) {
  PromptSource source(*file_, {7, true, 4});
  const auto drawn = source.Draw(kRows, kNoMemory);
  ASSERT_TRUE(drawn.ok());
  const auto other = Open("{\"id\": \"other\", \"prompt\": \"x\", \"answer\": \"1\"}\n");
  PromptSource resumed(*other, {7, true, 4});
  EXPECT_EQ(resumed.Resume(source.cursor()).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(resumed.Read(drawn->prompts.front()).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(PromptSourceTest, OverLongPromptsAreNeverDrawnAndAResumedRunDrawsTheSame) {
  config_.max_prompt_tokens = 1;
  config_.over_long = OverLong::kDrop;
  std::string jsonl;
  for (int i = 0; i < 60; ++i) {
    jsonl += "{\"id\": \"" + std::string(i % 3 == 0 ? "long" : "short") + std::to_string(i) +
             "\", \"prompt\": \"" + (i % 3 == 0 ? "xx" : "x") + "\", \"answer\": \"1\"}\n";
  }
  const auto file = Open(jsonl);
  for (const SelectionMode mode : {SelectionMode::kNone, SelectionMode::kMopps}) {
    PromptSourceOptions options{7, true, 4, {}, true};
    options.selection.mode = mode;
    PromptSource source(*file, options);
    Ids(source, 7);
    PromptSource resumed(*file, options);
    ASSERT_TRUE(resumed.Resume(source.cursor()).ok());
    const auto draws = source.Draw(100, kNoMemory);
    ASSERT_TRUE(draws.ok());
    for (const DrawnPrompt& prompt : draws->prompts) {
      EXPECT_TRUE(prompt.prompt_id.starts_with("short")) << prompt.prompt_id;
    }
    for (const SkipRow& skip : draws->skipped) {
      EXPECT_EQ(skip.reason == SkipReason::kOverLong, skip.row % 3 == 0) << skip.row;
    }
    const auto again = resumed.Draw(100, kNoMemory);
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->skipped, draws->skipped);
    EXPECT_EQ(again->prompts.back().prompt_id, draws->prompts.back().prompt_id);
  }
  const auto none = Open("{\"prompt\": \"xx\", \"answer\": \"1\"}\n");
  PromptSource empty(*none, {7, true, 4, {}, true});
  EXPECT_EQ(empty.Draw(1, kNoMemory).status().code(), StatusCode::kInvalidArgument);
}

SelectionConfig Mode(const std::string& mode) {
  SelectionConfig selection;
  selection.mode = *FindChoice<SelectionMode>(mode);
  return selection;
}

TEST_F(PromptSourceTest, GresoPassesOverPromptsThatAreConstantInARowWithTheReason) {
  Records records;
  for (std::uint64_t row = 0; row < 20; ++row) records[row].easy_in_a_row = 30;
  for (std::uint64_t row = 20; row < 40; ++row) records[row].hard_in_a_row = 30;
  PromptSource source(*file_, {7, true, 4, Mode("greso")});
  // 0.5^30 is below the floor of 0.01: of 40 prompts about one is drawn in spite of its history.
  std::int64_t easy = 0, hard = 0, drawn = 0;
  const auto draws = source.Draw(10, MemoryOf(records));
  ASSERT_TRUE(draws.ok());
  for (const SkipRow& skip : draws->skipped) {
    EXPECT_LT(skip.row, 40u);
    EXPECT_EQ(skip.reason, skip.row < 20 ? SkipReason::kEasy : SkipReason::kHard);
    (skip.reason == SkipReason::kEasy ? easy : hard) += 1;
  }
  for (const DrawnPrompt& prompt : draws->prompts) drawn += prompt.row >= 40 ? 1 : 0;
  EXPECT_GE(drawn, 8);
  EXPECT_GT(easy, 10);
  EXPECT_GT(hard, 10);
}

// A column over the prompts, such as their gradients, and what a pass that passes prompts over says
// of its mean.
TEST_F(PromptSourceTest, WeighedByTheirProbabilitiesTheDrawnPromptsStandForAll) {
  Records records;
  const auto value = [](std::uint64_t row) { return static_cast<double>(row * row); };
  double mean = 0;
  for (std::uint64_t row = 0; row < kRows; ++row) {
    (row % 2 == 0 ? records[row].easy_in_a_row : records[row].hard_in_a_row) =
        static_cast<std::int64_t>(row / 10);
    mean += value(row) / kRows;
  }
  PromptMemory memory = MemoryOf(records);
  memory.greso = {0.4, 0.7};
  constexpr int kPasses = 2000;
  double sum = 0, squares = 0, unweighted = 0;
  std::int64_t drawn = 0;
  for (std::uint64_t seed = 0; seed < kPasses; ++seed) {
    PromptSource source(*file_, {seed, true, 4, Mode("greso")});
    double of_pass = 0;
    for (auto next = source.Draw(1, memory); next->prompts[0].pass == 0;
         next = source.Draw(1, memory)) {
      const DrawnPrompt& prompt = next->prompts[0];
      of_pass += value(prompt.row) / prompt.probability / kRows;
      unweighted += value(prompt.row);
      ++drawn;
    }
    sum += of_pass;
    squares += of_pass * of_pass;
  }
  const double of_passes = sum / kPasses;
  const double error = std::sqrt((squares / kPasses - of_passes * of_passes) / kPasses);
  EXPECT_NEAR(of_passes, mean, 4 * error);
  EXPECT_LT(error, mean / 50);
  EXPECT_GT(std::abs(unweighted / static_cast<double>(drawn) - mean), 10 * error);
}

TEST_F(PromptSourceTest, SpeedSkipsAConstantPromptForOnePass) {
  Records records;
  for (std::uint64_t row = 0; row < 10; ++row) records[row].last_constant = true;  // in pass 0
  PromptSource source(*file_, {7, false, 4, Mode("speed")});
  ASSERT_TRUE(source.Resume({1, 0}).ok());
  const auto draws = source.Draw(kRows, MemoryOf(records));
  ASSERT_TRUE(draws.ok());
  ASSERT_EQ(draws->skipped.size(), 10u);
  for (const SkipRow& skip : draws->skipped)
    EXPECT_EQ(skip, (SkipRow{1, skip.row, SkipReason::kConstant}));
  EXPECT_EQ(draws->prompts.front().row, 10u);
  EXPECT_EQ(draws->prompts[40].pass, 2u);  // rested: drawn again
  EXPECT_EQ(draws->prompts[40].row, 0u);
}

TEST_F(PromptSourceTest, MoppsDrawsOneOfEachFewAndPrefersTheWantedRate) {
  Records records;
  for (std::uint64_t row = 0; row < kRows; ++row) {
    records[row].correct = row % 4 == 0 ? 500 : 1000;
    records[row].wrong = row % 4 == 0 ? 500 : 0;
  }
  SelectionConfig selection = Mode("mopps");
  PromptSource source(*file_, {7, false, 4, selection});
  const auto draws = source.Draw(12, MemoryOf(records));
  ASSERT_TRUE(draws.ok());
  EXPECT_EQ(draws->skipped.size(), 36u);
  for (const DrawnPrompt& prompt : draws->prompts) EXPECT_EQ(prompt.row % 4, 0u);
  for (const SkipRow& skip : draws->skipped) EXPECT_EQ(skip.reason, SkipReason::kFarther);
  selection.mopps.candidates = 2;
  PromptSource fewer(*file_, {7, false, 4, selection});
  EXPECT_EQ(fewer.Draw(12, MemoryOf(records))->skipped.size(), 12u);
}

TEST_F(PromptSourceTest, ADrawReadsTheRecordsOfThePromptsWhoseTurnHasComeAndKeepsThoseOfTheDrawn) {
  Records records;
  for (std::uint64_t row = 0; row < kRows; ++row) records[row].correct = static_cast<double>(row);
  std::set<std::uint64_t> read;
  const PromptMemory memory = {[&](std::uint64_t row) -> Result<PromptRecord> {
                                 read.insert(row);
                                 return records.at(row - 100);
                               },
                               {}};
  PromptSource source(*file_, {7, false, 4, Mode("mopps"), false, "", 100});
  const auto draws = source.Draw(3, memory);
  ASSERT_TRUE(draws.ok());
  EXPECT_EQ(read.size(), source.cursor().index);
  EXPECT_EQ(*read.rbegin(), 100 + source.cursor().index - 1);
  ASSERT_EQ(draws->records.size(), 3u);
  for (const DrawnPrompt& prompt : draws->prompts)
    EXPECT_EQ(draws->records.at(prompt.row), records.at(prompt.row - 100));

  const PromptMemory broken = {
      [](std::uint64_t) -> Result<PromptRecord> { return Unavailable("x"); }, {}};
  EXPECT_EQ(source.Draw(1, broken).status().code(), StatusCode::kUnavailable);
  PromptSource none(*file_, {7, false, 4});
  EXPECT_TRUE(none.Draw(1, broken)->records.empty());  // nothing to select by
}

TEST_F(PromptSourceTest, ASelectionResumesAsIfItHadNotStopped) {
  Records records;
  for (std::uint64_t row = 0; row < kRows; ++row) {
    records[row] = {.easy_in_a_row = static_cast<std::int64_t>(row % 3),
                    .hard_in_a_row = 0,
                    .last_constant = row % 3 != 0,
                    .last_pass = 0,
                    .correct = static_cast<double>(row % 5),
                    .wrong = 2};
  }
  for (const char* mode : {"greso", "speed", "mopps"}) {
    PromptSource whole(*file_, {7, true, 4, Mode(mode)}), first(*file_, {7, true, 4, Mode(mode)}),
        second(*file_, {7, true, 4, Mode(mode)});
    const auto all = whole.Draw(60, MemoryOf(records));
    const auto begin = first.Draw(23, MemoryOf(records));
    ASSERT_TRUE(second.Resume(first.cursor()).ok());
    const auto rest = second.Draw(37, MemoryOf(records));
    ASSERT_TRUE(all.ok() && begin.ok() && rest.ok());
    auto prompts = begin->prompts;
    prompts.insert(prompts.end(), rest->prompts.begin(), rest->prompts.end());
    auto skipped = begin->skipped;
    skipped.insert(skipped.end(), rest->skipped.begin(), rest->skipped.end());
    EXPECT_EQ(prompts, all->prompts) << mode;
    EXPECT_EQ(skipped, all->skipped) << mode;
    // Every place of the passes is drawn or passed over, once.
    std::set<std::pair<std::uint64_t, std::uint64_t>> places;
    for (const DrawnPrompt& prompt : prompts)
      EXPECT_TRUE(places.insert({prompt.pass, prompt.row}).second);
    for (const SkipRow& skip : skipped) EXPECT_TRUE(places.insert({skip.pass, skip.row}).second);
    EXPECT_EQ(places.size(), second.cursor().pass * kRows + second.cursor().index) << mode;
  }
}

}  // namespace
}  // namespace buttress
