#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <tuple>

#include "coordinator/prompt_source.h"
#include "lib/base/os/file.h"
#include "lib/base/text/random.h"
#include "tests/support/fakes/byte_tokenizer.h"
#include "tests/support/temp_dir.h"

namespace buttress {
namespace {

const PromptMemory kNothing{[](std::uint64_t) { return Result(PromptRecord()); }, {}};

class PromptMixTest : public testing::Test {
 protected:
  // Adds a source whose rows have the ids 1, 2, ...; every third prompt is long.
  void Add(const std::string& name, int rows, double weight) {
    std::string jsonl;
    for (int i = 0; i < rows; ++i)
      jsonl += i % 3 == 2 ? "{\"prompt\": \"xx\", \"answer\": \"1\"}\n"
                          : "{\"prompt\": \"x\", \"answer\": \"1\"}\n";
    SourceConfig& source = run_.data.sources[name];
    source.prompts = JoinPath(folder_.path(), name + ".jsonl");
    source.weight = weight;
    EXPECT_TRUE(WriteFileAtomic(source.prompts, jsonl).ok());
  }

  void Open() {
    auto set = PromptSet::Open(run_, tokenizer_);
    ASSERT_TRUE(set.ok()) << set.status().ToString();
    set_ = *std::move(set);
  }

  PromptMix Mix() const { return PromptMix(*set_, run_); }

  // The sources of the ledger after the draws of `mix`.
  std::vector<SourceRow> SourcesOf(const PromptMix& mix) const {
    std::vector<SourceRow> rows = PromptMix::NewSources(*set_);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i].cursor = mix.cursors()[i];
    return rows;
  }

  TempDir folder_;
  ByteTokenizer tokenizer_;
  RunSettings run_;
  std::optional<PromptSet> set_;
};

TEST_F(PromptMixTest, AfterEveryDrawTheSharesAreWithinOnePromptOfTheWeights) {
  Add("code", 7, 1);
  Add("math", 50, 3);
  Open();
  PromptMix mix = Mix();
  std::map<std::string, int> drawn;
  for (int n = 1; n <= 400; ++n) {
    const auto draws = mix.Draw(1, kNothing);
    ASSERT_TRUE(draws.ok());
    ++drawn[draws->prompts.front().source];
    EXPECT_LT(std::abs(drawn["code"] - n / 4.0), 1) << n;
  }
  EXPECT_EQ(drawn["code"], 100);
  EXPECT_EQ(drawn["math"], 300);
}

TEST_F(PromptMixTest, PromptsHaveTheSourceInTheirIdAndRowsOfTheirOwn) {
  Add("code", 3, 1);
  Add("math", 3, 1);
  run_.data.shuffle = false;
  Open();
  PromptMix mix = Mix();
  const auto draws = mix.Draw(6, kNothing);
  ASSERT_TRUE(draws.ok());
  std::vector<std::string> ids;
  for (const DrawnPrompt& prompt : draws->prompts) {
    ids.push_back(prompt.prompt_id + "@" + std::to_string(prompt.row));
    const auto read = mix.Read(prompt);
    ASSERT_TRUE(read.ok()) << read.status().ToString();
    EXPECT_EQ(read->id, prompt.prompt_id);
    EXPECT_EQ(read->source, prompt.source);
  }
  EXPECT_THAT(ids, testing::ElementsAre("code/1@0", "math/1@3", "code/2@1", "math/2@4", "code/3@2",
                                        "math/3@5"));
}

TEST_F(PromptMixTest, EverySourceHasAnOrderOfItsOwn) {
  Add("a", 40, 1);
  Add("b", 40, 1);
  Open();
  PromptMix mix = Mix(), same = Mix();
  const auto draws = mix.Draw(80, kNothing);
  const auto again = same.Draw(80, kNothing);
  ASSERT_TRUE(draws.ok() && again.ok());
  EXPECT_EQ(draws->prompts, again->prompts);
  std::vector<std::uint64_t> a, b;
  for (const DrawnPrompt& prompt : draws->prompts)
    (prompt.source == "a" ? a : b).push_back(prompt.row % 40);
  EXPECT_EQ(a.size(), 40u);
  EXPECT_NE(a, b);
  EXPECT_EQ(std::set(a.begin(), a.end()), std::set(b.begin(), b.end()));
}

TEST_F(PromptMixTest, ASourceDrawsTheSamePromptsWhateverItsWeight) {
  Add("a", 20, 1);
  Add("b", 20, 1);
  Open();
  const auto of_b = [](const Result<Draws>& draws) {
    std::vector<std::string> ids;
    for (const DrawnPrompt& prompt : draws->prompts)
      if (prompt.source == "b") ids.push_back(prompt.prompt_id);
    return ids;
  };
  const auto even = of_b(Mix().Draw(60, kNothing));
  run_.data.sources["a"].weight = 5;
  Open();
  const auto rare = of_b(Mix().Draw(60, kNothing));
  ASSERT_EQ(rare.size(), 10u);
  EXPECT_EQ(rare, std::vector(even.begin(), even.begin() + 10));
}

// Stops behind every draw, with prompts that are dropped, and with weights and sizes at random.
TEST_F(PromptMixTest, ARunResumedAtAnyCursorDrawsWhatOneThatNeverStoppedDraws) {
  constexpr std::int64_t kDraws = 45;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    RandomStream random({seed, 0});
    run_.data.sources.clear();
    run_.seed = seed;
    for (const char* name : {"a", "b", "c"})
      Add(name, static_cast<int>(1 + random.Below(12)), 0.1 + static_cast<double>(random.Below(9)));
    run_.data.sources["b"].max_prompt_tokens = 1;
    run_.data.sources["b"].over_long = OverLong::kDrop;
    run_.data.selection.mode = seed % 2 == 0 ? SelectionMode::kMopps : SelectionMode::kNone;
    Open();
    PromptMix whole = Mix();
    const auto all = whole.Draw(kDraws, kNothing);
    ASSERT_TRUE(all.ok()) << all.status().ToString();
    std::vector<DrawnPrompt> prompts;
    std::vector<SkipRow> skipped;
    std::vector<SourceRow> sources = PromptMix::NewSources(*set_);
    for (std::int64_t n = 0; n < kDraws; ++n) {
      PromptMix resumed = Mix();
      ASSERT_TRUE(resumed.Resume(sources).ok());
      const auto one = resumed.Draw(1, kNothing);
      ASSERT_TRUE(one.ok());
      prompts.push_back(one->prompts.front());
      skipped.insert(skipped.end(), one->skipped.begin(), one->skipped.end());
      sources = SourcesOf(resumed);
    }
    EXPECT_EQ(prompts, all->prompts) << seed;
    EXPECT_EQ(skipped, all->skipped) << seed;
    // Every place of every pass is drawn or passed over, once.
    std::set<std::pair<std::uint64_t, std::uint64_t>> places;
    for (const DrawnPrompt& prompt : prompts)
      EXPECT_TRUE(places.insert({prompt.pass, prompt.row}).second);
    for (const SkipRow& skip : skipped) EXPECT_TRUE(places.insert({skip.pass, skip.row}).second);
    std::uint64_t expected = 0;
    for (const SourceRow& row : sources)
      expected += row.cursor.pass * row.dataset.rows + row.cursor.index;
    EXPECT_EQ(places.size(), expected) << seed;
  }
}

TEST_F(PromptMixTest, OneDatasetKeepsIdsAndSourcesOfItsRows) {
  run_.data.prompts = JoinPath(folder_.path(), "rows.jsonl");
  ASSERT_TRUE(WriteFileAtomic(run_.data.prompts,
                              "{\"id\": 7, \"source\": \"s\", \"prompt\": \"x\", \"answer\": 1}\n")
                  .ok());
  Open();
  const auto draws = Mix().Draw(1, kNothing);
  ASSERT_TRUE(draws.ok());
  EXPECT_EQ(draws->prompts.front(), (DrawnPrompt{"7", "s", 0, 0, 8}));
  EXPECT_EQ(PromptMix::NewSources(*set_).front().name, "");
}

}  // namespace
}  // namespace buttress
