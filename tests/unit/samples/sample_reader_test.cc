#include "lib/samples/sample_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"
#include "lib/ledger/ledger.h"
#include "lib/ledger/payload_store.h"
#include "tests/support/fakes/byte_tokenizer.h"
#include "tests/support/make_head.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_group.h"

namespace buttress {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Groups 1 to 4 of two prompts: row 0 was never solved in groups 1 and 3, row 1 was in group 2 and
// not in 4. Groups 2 and 1 are the plan of step 1, and 3 was replaced in it.
class SampleReaderTest : public ::testing::Test {
 protected:
  SampleReaderTest() {
    const auto ledger = *Ledger::Open(JoinPath(dir_.path(), "ledger.db"));
    const auto payloads = *PayloadStore::Open(JoinPath(dir_.path(), "payloads"), {});
    LedgerChanges changes;
    changes.run.emplace();
    changes.run->planned_step = 1;
    changes.run->next_group_id = 5;
    for (std::uint64_t id = 1; id <= 4; ++id) {
      GroupRow& row = changes.groups.emplace_back();
      row.group_id = id;
      row.prompt = {"p" + std::to_string((id + 1) % 2), "s", (id - 1) / 2, (id + 1) % 2, 1};
      row.state = GroupState::kReady;
      changes.accepted.push_back(
          Accepted(id, id == 2 ? Outcome::kCorrect : Outcome::kWrong, *payloads));
      changes.collapse["s"].Add(ClassOf(*changes.accepted.back().head));
    }
    changes.histories = {{0, {0, 2}}, {1, {1, 2}}};
    for (const std::uint64_t id : {1u, 2u}) {
      changes.groups[id - 1].state = GroupState::kBatched;
      changes.groups[id - 1].step = 1;
    }
    changes.groups[2].state = GroupState::kDropped;
    changes.groups[2].reason = DropReason::kNoSignal;
    changes.groups[2].step = 1;
    PlanRow& plan = changes.plans.emplace_back();
    plan.step = 1;
    plan.group_ids = {2, 1};
    EXPECT_TRUE(payloads->Sync().ok());
    const Status written = ledger->Write(changes);
    EXPECT_TRUE(written.ok()) << written.ToString();
  }

  // "<" and "4" are of the policy, "b>" between them is of a tool.
  static void MakeEpisode(v1::Group& group) {
    for (const TokenSpan& tokens : {TokenSpan{0, 1}, TokenSpan{3, 4}}) {
      v1::Turn& turn = *group.add_turns();
      turn.set_begin(tokens.begin);
      turn.set_end(tokens.end);
      turn.set_sampled_ms(40);
      group.mutable_head()->add_turn_rewards(0);
    }
    group.mutable_turns(0)->add_tools("calculator");
    group.mutable_turns(0)->set_failed_tools(1);
    group.mutable_head()->add_turns(2);
    group.mutable_head()->add_episode_ends(v1::EPISODE_END_TURNS);
  }

  static AcceptedGroup Accepted(std::uint64_t id, Outcome outcome, PayloadStore& payloads) {
    v1::Group group = NewGroup(id, {'1', '+', '1'}, {1, 0, std::string(32, 'a')});
    AppendCompletion(group, {'<', 'b', '>', static_cast<std::int32_t>('0' + id)}, outcome,
                     outcome == Outcome::kCorrect ? 1 : 0, FinishReason::kLength);
    group.add_extracted_answers("7");
    if (id == 4) MakeEpisode(group);
    const std::string bytes = group.SerializeAsString();
    AcceptedGroup row = MakeAccepted(SummarizeGroup(group));
    row.content_sha256 = Sha256Of(bytes);
    row.payload = *payloads.Append({id, 1}, bytes, row.content_sha256);
    return row;
  }

  std::unique_ptr<SampleReader> Open(const Tokenizer* tokenizer) {
    return *SampleReader::Open(dir_.path(), tokenizer);
  }

  TempDir dir_;
  const ByteTokenizer tokenizer_;
};

TEST_F(SampleReaderTest, AnEpisodeIsAConversation) {
  const std::uint64_t ids[] = {4, 2};
  const auto groups = Open(&tokenizer_)->Groups(ids);
  ASSERT_TRUE(groups.ok()) << groups.status().ToString();
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  AddEpisodeJson((*groups)[0], 0, json);
  EXPECT_EQ(json.dump(),
            R"({"end":"turns","turns":[{"reward":0.0,"waited_ms":0,"sampled_ms":40,)"
            R"("tools":["calculator"],"failed_tools":1},{"reward":0.0,"waited_ms":0,)"
            R"("sampled_ms":40,"tools":[],"failed_tools":0}],"parts":[{"by":"policy",)"
            R"("text":"<","messages":[{"role":"assistant","content":"<"}]},)"
            R"({"by":"environment","text":"b>","messages":)"
            R"([{"role":"environment","content":"b>"}]},)"
            R"({"by":"policy","text":"4","messages":[{"role":"assistant","content":"4"}]}]})");
  EXPECT_EQ((*groups)[0].prompt_messages.size(), 1U);
  EXPECT_TRUE((*groups)[1].prompt_messages.empty());
  json = nlohmann::ordered_json::object();
  AddEpisodeJson((*groups)[1], 0, json);
  EXPECT_TRUE(json.empty()) << "no episode";
}

TEST_F(SampleReaderTest, AGroupHasItsTextsInTheOrderThatWasAskedFor) {
  const std::uint64_t ids[] = {4, 2, 99};
  const auto groups = Open(&tokenizer_)->Groups(ids);
  ASSERT_TRUE(groups.ok()) << groups.status().ToString();
  ASSERT_EQ(groups->size(), 2U);
  EXPECT_EQ((*groups)[0].group.group_id, 4U);
  EXPECT_EQ((*groups)[0].prompt, "1+1");
  ASSERT_EQ((*groups)[0].samples.size(), 1U);
  EXPECT_EQ((*groups)[0].samples[0].text, "<b>4");
  EXPECT_EQ((*groups)[0].samples[0].answer, "7");
  EXPECT_EQ((*groups)[1].head->rewards(0), 1);
  EXPECT_EQ((*groups)[1].why_no_texts, "");
}

TEST_F(SampleReaderTest, WithoutPayloadOrTokenizerTheRowsAreThereAndTheReason) {
  const std::uint64_t ids[] = {2};
  EXPECT_THAT(Open(nullptr)->Groups(ids)->front().why_no_texts, HasSubstr("--model"));
  std::filesystem::remove_all(JoinPath(dir_.path(), "payloads"));
  const SampledGroup group = Open(&tokenizer_)->Groups(ids)->front();
  EXPECT_THAT(group.why_no_texts, HasSubstr("local.coordinator.keep_payloads"));
  EXPECT_FALSE(group.prompt.has_value());
  EXPECT_FALSE(group.samples[0].text.has_value());
  EXPECT_EQ(group.head->lengths(0), 4);
}

TEST_F(SampleReaderTest, AStepHasTheGroupsOfItsPlanThenThoseThatTheyReplaced) {
  const auto reader = Open(&tokenizer_);
  EXPECT_THAT(*reader->ledger().DrawnFor(1), ElementsAre(2, 1, 3));
  EXPECT_THAT(*reader->ledger().DrawnFor(2), IsEmpty());
}

TEST_F(SampleReaderTest, APromptIsUnsolvedIfNoGroupOfTheRunHasSolvedIt) {
  const auto reader = Open(&tokenizer_);
  const auto prompts = reader->ledger().Unsolved(100, 10);
  ASSERT_TRUE(prompts.ok()) << prompts.status().ToString();
  ASSERT_EQ(prompts->size(), 1U);
  EXPECT_EQ(prompts->front().prompt_id, "p0");
  EXPECT_EQ(prompts->front().last_group, 3U);
  EXPECT_EQ(prompts->front().completions, 2);
  EXPECT_THAT(*reader->ledger().Unsolved(1, 10), IsEmpty());  // group 4 alone, of the other prompt
  EXPECT_THAT(*reader->ledger().Unsolved(100, 0), IsEmpty());
}

}  // namespace
}  // namespace buttress
