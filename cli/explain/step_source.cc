#include "cli/explain/step_source.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include "lib/base/os/file.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/experience/episodes.h"
#include "lib/ledger/reader.h"
#include "lib/measure/steps_file.h"
#include "lib/samples/sample_reader.h"

namespace buttress {
namespace {

namespace fs = std::filesystem;

bool IsSqlite(const std::string& path) {
  std::array<char, 16> head{};
  std::ifstream(path, std::ios::binary).read(head.data(), head.size());
  return std::string_view(head.data(), 15) == "SQLite format 3";
}

// Returns the first number in a file name, so that 10.jsonl sorts after 9.jsonl.
std::uint64_t NumberIn(const std::string& name) {
  std::uint64_t number = 0;
  bool any = false;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (any && !digit) break;
    if (digit && number < UINT64_MAX / 16)
      number = number * 10 + static_cast<std::uint64_t>(c - '0');
    any = any || digit;
  }
  return number;
}

Result<std::vector<std::string>> FilesIn(const std::string& folder, std::string_view ending) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    if (entry->path().extension() == ending) files.push_back(entry->path().string());
  }
  if (error) return InvalidArgument(folder + ": " + error.message());
  const auto order = [](const std::string& path) {
    const std::string name = fs::path(path).filename().string();
    return std::tuple(NumberIn(name), name);
  };
  std::ranges::sort(files, {}, order);
  return files;
}

constexpr std::array<const char*, 4> kEndings = {".jsonl", ".parquet", ".arrow", ".csv"};

// Returns the names of the dumps in a folder that do not end with `ending`.
std::vector<std::string> OtherDumps(const std::string& folder, std::string_view ending) {
  std::vector<std::string> names;
  for (const char* other : kEndings) {
    if (other == ending) continue;
    const Result<std::vector<std::string>> files = FilesIn(folder, other);
    if (!files.ok()) continue;
    for (const std::string& file : *files) names.push_back(fs::path(file).filename().string());
  }
  return names;
}

// Says which files are not read because `place` has some with `ending`: of other formats there, and
// all in `folder` next to it.
std::vector<std::string> LeftOut(const std::string& folder, const std::string& place,
                                 std::string_view ending) {
  const auto counted = [](const std::vector<std::string>& names) {
    return names.size() == 1 ? std::string("1 file") : fmt::format("{} files", names.size());
  };
  std::vector<std::string> remarks;
  if (const auto names = OtherDumps(place, ending); !names.empty()) {
    remarks.push_back(
        fmt::format("left out {} of another format in {}, the first: {}; a folder is read in one "
                    "format, the first that it has of {}",
                    counted(names), place, names[0], fmt::join(kEndings, ", ")));
  }
  if (place == folder) return remarks;
  if (const auto names = OtherDumps(folder, ""); !names.empty()) {
    remarks.push_back(fmt::format("read {}, and left out {} next to it, the first: {}", place,
                                  counted(names), names[0]));
  }
  return remarks;
}

Result<std::unique_ptr<StepSource>> OpenFolder(const std::string& folder,
                                               const StepSourceOptions& options) {
  std::error_code ignored;
  if (!RunFolderOf(folder).empty()) return OpenLedgerSteps(JoinPath(folder, "ledger.db"));
  // TRL writes to <output_dir>/completions, and other programs their logs next to it.
  for (const std::string& place : {JoinPath(folder, "completions"), folder}) {
    if (!fs::is_directory(place, ignored)) continue;
    if (fs::exists(JoinPath(place, "state.json"), ignored))  // of save_to_disk
      return OpenDumpSteps({place}, options);
    // One kind of file only: a folder may have the same rows in two.
    for (const char* ending : kEndings) {
      BUTTRESS_ASSIGN_OR_RETURN(std::vector<std::string> files, FilesIn(place, ending));
      if (!files.empty())
        return OpenDumpSteps(std::move(files), options, LeftOut(folder, place, ending));
    }
  }
  return NotFound(folder +
                  " has neither ledger.db nor *.jsonl, *.parquet, *.arrow or *.csv; name a "
                  "run folder, or a folder that verl's rollout_data_dir or TRL's "
                  "log_completions wrote");
}

// Returns the facts about the tokens of a completion, of which those that the policy sampled are
// its words.
TextFacts TextFactsOf(const v1::GroupHead& head, std::size_t i) {
  TextFacts facts;
  const std::string_view digest = TokenDigestOf(head, i);
  std::memcpy(&facts.digest, digest.data(), std::min(digest.size(), sizeof(facts.digest)));
  facts.words = SampledLengthsOf(head)[static_cast<int>(i)];
  facts.length = head.lengths(static_cast<int>(i));
  facts.sketch = TokenSketchOf(head, i);
  return facts;
}

// Returns the setting at which an episode ended; empty for other ends.
std::string LimitOf(v1::EpisodeEnd end) {
  switch (end) {
    case v1::EPISODE_END_TURNS:
      return "run.env.max_turns";
    case v1::EPISODE_END_TOKENS:
      return "run.env.max_tokens";
    case v1::EPISODE_END_TOOLS:
      return "run.env.max_tool_calls";
    default:
      return "";
  }
}

using TurnRewards = std::vector<std::span<const double>>;

// The rewards of the turns of each completion.
TurnRewards TurnRewardsOf(const v1::GroupHead& head) {
  TurnRewards rewards;
  const double* next = head.turn_rewards().data();
  for (const std::int32_t turns : head.turns()) {
    rewards.emplace_back(next, static_cast<std::size_t>(turns));
    next += turns;
  }
  return rewards;
}

// The facts of the episode whose completions are [begin, end).
EpisodeFacts EpisodeFactsOf(const v1::GroupHead& head, const TurnRewards& rewards, int begin,
                            int end) {
  EpisodeFacts facts;
  facts.branches = end - begin;
  const auto rewarded = [](double reward) { return reward != 0; };
  for (int i = begin; i < end; ++i) {
    std::span<const double> turns = rewards[static_cast<std::size_t>(i)];
    facts.turns += head.turns(i);
    facts.rewarded_branches += std::ranges::any_of(turns, rewarded) ? 1 : 0;
    if (i + 1 == end && !turns.empty()) turns = turns.first(turns.size() - 1);
    facts.rewarded_early = facts.rewarded_early || std::ranges::any_of(turns, rewarded);
    if (head.tool_calls().empty()) continue;
    facts.calls += head.tool_calls(i);
    facts.failed_calls += head.failed_tool_calls(i);
    facts.repeated_answers += head.repeated_answers(i);
  }
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
  const std::vector<std::int32_t> episodes = EpisodeOffsets(head);
  const TurnRewards turn_rewards = TurnRewardsOf(head);
  for (std::size_t e = 0; e + 1 < episodes.size(); ++e) {
    const int i = episodes[e];
    CompletionFacts& c = facts.completions.emplace_back();
    c.SetRewards(head.rewards(i));
    c.deciding_reward = head.raw_rewards(i);
    c.outcome = OutcomeOf(head, i);
    MaskHugeReward(c);
    c.tokens = std::accumulate(SampledLengthsOf(head).begin() + i,
                               SampledLengthsOf(head).begin() + episodes[e + 1], 0);
    if (head.finish_reasons(i) != v1::FINISH_REASON_UNSPECIFIED) c.truncated = IsTruncated(head, i);
    if (!head.episode_ends().empty()) {
      c.limit = LimitOf(head.episode_ends(i));
      c.episode = EpisodeFactsOf(head, turn_rewards, i, episodes[e + 1]);
    }
    if (c.tokens == 0) continue;
    c.logprob = std::accumulate(head.logprob_sums().begin() + i,
                                head.logprob_sums().begin() + episodes[e + 1], 0.0);
    c.text = TextFactsOf(head, static_cast<std::size_t>(i));
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

// Adds the failed calls of a group by tool, if its payload is there. A turn with several calls does
// not say which of them failed, unless all did.
void AddFailedTools(const std::string& payload_folder, const AcceptedGroup& accepted,
                    GroupFacts& facts) {
  const auto& failed = accepted.head->failed_tool_calls();
  if (std::ranges::all_of(failed, [](std::int32_t count) { return count == 0; })) return;
  const Result<v1::Group> group = ReadPayload(PayloadReader(payload_folder), accepted);
  if (!group.ok()) return;
  for (const v1::Turn& turn : group->turns()) {
    for (const std::string& tool : turn.tools()) {
      if (tool.empty() || turn.failed_tools() == turn.tools_size()) ++facts.failed_by_tool[tool];
    }
  }
}

// Whether the run in the folder compares turns.
bool HasTurnCredit(const std::string& folder) {
  if (folder.empty()) return false;
  const Result<RunConfig> config = LoadRunConfig(StoredConfigPath(folder), {});
  return config.ok() && config->run.env.kind != EnvKind::kSingle &&
         config->run.env.credit == EpisodeCredit::kTurn;
}

class LedgerSteps : public StepSource {
 public:
  LedgerSteps(std::string path, std::unique_ptr<LedgerReader> reader,
              std::vector<StepOfGroup> groups, std::vector<std::string> remarks,
              std::int64_t misjudged_sources)
      : path_(std::move(path)),
        reader_(std::move(reader)),
        groups_(std::move(groups)),
        remarks_(std::move(remarks)),
        misjudged_sources_(misjudged_sources),
        payload_folder_(JoinPath(RunFolderOf(path_), "payloads")),
        turn_credit_(HasTurnCredit(RunFolderOf(path_))) {}

  Result<std::vector<GroupFacts>> Next() override {
    std::vector<GroupFacts> facts;
    if (next_ == groups_.size()) return facts;
    const std::uint64_t step = groups_[next_].step;
    std::vector<std::uint64_t> ids;
    for (; next_ < groups_.size() && groups_[next_].step == step; ++next_)
      ids.push_back(groups_[next_].group_id);
    BUTTRESS_ASSIGN_OR_RETURN(const std::vector<GroupRecord> records, reader_->GroupsById(ids));
    for (const GroupRecord& record : records) {
      GroupFacts& group = facts.emplace_back(FactsOf(record, static_cast<std::int64_t>(step)));
      group.turn_credit = turn_credit_;
      if (group.collapse() != CollapseClass::kMixed)
        AddFailedTools(payload_folder_, *record.accepted, group);
    }
    return facts;
  }

  double progress() const override {
    return groups_.empty() ? 1.0 : static_cast<double>(next_) / static_cast<double>(groups_.size());
  }

  std::string description() const override {
    return "ledger " + path_ + ", " + std::to_string(groups_.size()) + " accepted groups";
  }

  std::vector<std::string> remarks() const override { return remarks_; }

  std::int64_t misjudged_sources() const override { return misjudged_sources_; }

 private:
  const std::string path_;
  const std::unique_ptr<LedgerReader> reader_;
  const std::vector<StepOfGroup> groups_;  // sorted by step
  const std::vector<std::string> remarks_;
  const std::int64_t misjudged_sources_;
  const std::string payload_folder_;
  const bool turn_credit_;
  std::size_t next_ = 0;
};

// StepSource::misjudged_sources of a run folder.
std::int64_t MisjudgedSources(const std::string& folder, std::vector<std::string>& remarks) {
  StepMeasurements newest;
  for (const std::string& path : {JoinPath(folder, "steps.jsonl"), ReceivedStepsPath(folder)}) {
    const Result<std::vector<StepMeasurements>> steps = ReadNewestSteps(path, 1);
    if (!steps.ok())
      remarks.push_back(steps.status().message() + "; its controls of the verifiers are left out");
    if (steps.ok() && !steps->empty() && steps->front().step > newest.step) newest = steps->front();
  }
  return newest.misjudged_sources > 0 ? static_cast<std::int64_t>(newest.misjudged_sources) : 0;
}

}  // namespace

std::string RunFolderOf(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored))
    return fs::exists(JoinPath(path, "ledger.db"), ignored) ? path : "";
  if (!IsSqlite(path)) return "";
  const std::string folder = fs::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

Result<std::unique_ptr<StepSource>> OpenSteps(const std::string& path,
                                              const StepSourceOptions& options) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return OpenFolder(path, options);
  if (!fs::exists(path, ignored)) return InvalidArgument(path + ": no such file or folder");
  if (IsSqlite(path)) return OpenLedgerSteps(path);
  return OpenDumpSteps({path}, options);
}

Result<std::unique_ptr<StepSource>> OpenLedgerSteps(const std::string& ledger_path) {
  // What was accepted does not change, so the calls need not share a transaction that lasts.
  BUTTRESS_ASSIGN_OR_RETURN(std::unique_ptr<LedgerReader> reader,
                            LedgerReader::Open(ledger_path, ReaderView::kEachCall));
  BUTTRESS_ASSIGN_OR_RETURN(std::vector<StepOfGroup> groups, reader->StepsOfAccepted());
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<DropRow> drops, reader->Drops());
  std::vector<std::string> remarks;
  for (const DropRow& drop : drops)
    remarks.push_back("group " + std::to_string(drop.group_id) + " was dropped: " + drop.reason);
  const std::int64_t misjudged = MisjudgedSources(RunFolderOf(ledger_path), remarks);
  return std::unique_ptr<StepSource>(std::make_unique<LedgerSteps>(
      ledger_path, std::move(reader), std::move(groups), std::move(remarks), misjudged));
}

}  // namespace buttress
