// Reads steps from the ledger of a run. Every accepted group counts: a planned group at its step,
// another group at the first step that could have used it.
#include <algorithm>
#include <cstring>
#include <utility>

#include "cli/explain/step_source.h"
#include "lib/ledger/reader.h"

namespace buttress {
namespace {

// Returns the facts about the tokens of a completion, which are its words.
TextFacts TextFactsOf(const v1::GroupHead& head, std::size_t i) {
  TextFacts facts;
  const std::string_view digest = TokenDigestOf(head, i);
  std::memcpy(&facts.digest, digest.data(), std::min(digest.size(), sizeof(facts.digest)));
  facts.words = facts.length = head.lengths(static_cast<int>(i));
  facts.sketch = TokenSketchOf(head, i);
  return facts;
}

GroupFacts FactsOf(const GroupRecord& record, std::int64_t step) {
  const v1::GroupHead& head = *record.accepted->head;
  GroupFacts facts;
  facts.step = step;
  facts.prompt_id = record.group.prompt.prompt_id;
  facts.source = record.group.prompt.source;
  facts.sampler = record.group.worker_id;
  facts.where = "group " + std::to_string(record.group.group_id);
  facts.history = HistoryOf(head);
  for (std::size_t i = 0; i < CompletionsOf(head); ++i) {
    CompletionFacts& c = facts.completions.emplace_back();
    c.raw_reward = RawRewardsOf(head)[i];
    c.reward = RewardsOf(head)[i];
    c.outcome = OutcomeOf(head, i);
    MaskHugeReward(c);
    c.tokens = head.lengths(static_cast<int>(i));
    if (head.finish_reasons(static_cast<int>(i)) != v1::FINISH_REASON_UNSPECIFIED)
      c.truncated = IsTruncated(head, i);
    if (c.tokens == 0) continue;
    c.logprob = head.logprob_sums(static_cast<int>(i));
    c.text = TextFactsOf(head, i);
  }
  // Versions of another learner epoch say nothing about the age.
  for (const v1::PolicyVersion& version : head.versions()) {
    if (version.learner_epoch() == record.group.granted_version.learner_epoch) {
      facts.version_step = static_cast<std::int64_t>(version.step());
      break;
    }
  }
  return facts;
}

class LedgerSteps : public StepSource {
 public:
  LedgerSteps(std::string path, std::unique_ptr<LedgerReader> reader,
              std::vector<StepOfGroup> groups, std::vector<std::string> remarks)
      : path_(std::move(path)),
        reader_(std::move(reader)),
        groups_(std::move(groups)),
        remarks_(std::move(remarks)) {}

  Result<std::vector<GroupFacts>> Next() override {
    std::vector<GroupFacts> facts;
    if (next_ == groups_.size()) return facts;
    const std::uint64_t step = groups_[next_].step;
    std::vector<std::uint64_t> ids;
    for (; next_ < groups_.size() && groups_[next_].step == step; ++next_)
      ids.push_back(groups_[next_].group_id);
    BUTTRESS_ASSIGN_OR_RETURN(const std::vector<GroupRecord> records, reader_->GroupsById(ids));
    for (const GroupRecord& record : records)
      if (!record.accepted->damaged)
        facts.push_back(FactsOf(record, static_cast<std::int64_t>(step)));
    return facts;
  }

  double progress() const override {
    return groups_.empty() ? 1.0 : static_cast<double>(next_) / static_cast<double>(groups_.size());
  }

  std::string description() const override {
    return "ledger " + path_ + ", " + std::to_string(groups_.size()) + " accepted groups";
  }

  std::vector<std::string> remarks() const override { return remarks_; }

 private:
  const std::string path_;
  const std::unique_ptr<LedgerReader> reader_;
  const std::vector<StepOfGroup> groups_;  // sorted by step
  const std::vector<std::string> remarks_;
  std::size_t next_ = 0;
};

}  // namespace

Result<std::unique_ptr<StepSource>> OpenLedgerSteps(const std::string& ledger_path) {
  // What was accepted does not change, so the calls need not share a transaction that lasts.
  BUTTRESS_ASSIGN_OR_RETURN(std::unique_ptr<LedgerReader> reader,
                            LedgerReader::Open(ledger_path, ReaderView::kEachCall));
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<StepOfGroup> groups, reader->StepsOfAccepted());
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<DropRow> drops, reader->Drops());
  std::vector<std::string> remarks;
  for (const DropRow& drop : drops)
    remarks.push_back("group " + std::to_string(drop.group_id) + " was dropped: " + drop.reason);
  return std::unique_ptr<StepSource>(std::make_unique<LedgerSteps>(
      ledger_path, std::move(reader), std::move(groups), std::move(remarks)));
}

}  // namespace buttress
