// Reads the steps of a dump from its JSONL files, in order. Only facts are kept in memory, not
// texts.
#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "cli/explain/dump_fields.h"
#include "cli/explain/dump_row.h"
#include "cli/explain/json_line.h"
#include "cli/explain/step_source.h"
#include "cli/explain/trl_state.h"
#include "lib/base/text/random.h"
#include "lib/base/text/reward_bounds.h"
#include "lib/data/line_reader.h"

namespace buttress {
namespace {

constexpr std::size_t kMaxErrors = 20;
constexpr std::size_t kMaxStepCompletions = std::size_t{1} << 20;  // per step
constexpr std::size_t kGroupsWithoutStep = 128;  // groups per step if rows name no step
constexpr std::int64_t kManyGroups = 32;         // of which some are constant in most runs

class DumpSteps : public StepSource {
 public:
  DumpSteps(std::vector<std::string> files, const StepSourceOptions& options,
            std::vector<std::string> remarks)
      : files_(std::move(files)), options_(options), first_remarks_(std::move(remarks)) {}

  Result<std::vector<GroupFacts>> Next() override {
    while (true) {
      BUTTRESS_ASSIGN_OR_RETURN(std::vector<GroupFacts> groups, ReadStep());
      if (groups.empty()) return groups;
      NoteInterval(groups[0].step);
      if (!IsLoggedAgain(groups) && !IsEvaluated(groups)) return groups;
    }
  }

  double progress() const override {
    double files = static_cast<double>(next_file_);
    if (reader_ && reader_->size() > 0)
      files += static_cast<double>(reader_->bytes()) / static_cast<double>(reader_->size()) - 1;
    return files / static_cast<double>(std::max<std::size_t>(1, files_.size()));
  }

  std::string description() const override {
    return (rows_reader_ ? std::string(rows_reader_->dialect().name) : "empty") + " dump, " +
           std::to_string(dumps_) + (dumps_ == 1 ? " file" : " files");
  }

  std::vector<std::string> remarks() const override {
    std::vector<std::string> remarks = first_remarks_;
    if (!unfinished_.empty())
      remarks.push_back(unfinished_ +
                        " is not finished: it was left out, and its group and step "
                        "may lack more completions");
    if (others_ > 0)
      remarks.push_back(fmt::format("{} of {} files are no such dumps and were left out: {}",
                                    others_, files_.size(), other_files_));
    if (bad_rows_ > 0)
      remarks.push_back(
          std::to_string(bad_rows_) +
          (bad_rows_ == 1 ? " bad row was left out: " : " bad rows were left out, the first: ") +
          errors_.substr(0, errors_.find('\n')));
    std::ranges::move(gaps_.Remarks(), std::back_inserter(remarks));
    if (huge_rewards_ > 0) {
      remarks.push_back(fmt::format(
          "{} completions count as unscorable, because their rewards are not in [-{}, {}], the "
          "first: {}",
          huge_rewards_, kMaxReward, kMaxReward, first_huge_));
    }
    if (options_.max_tokens > 0 && rows_reader_ && !has_tokens_)
      remarks.push_back("--max-tokens has no effect: the rows have no number of tokens" +
                        TokensField());
    if (logged_again_ > 0) {
      remarks.push_back(
          fmt::format("{} steps were left out because their rows equal those of the step before: "
                      "TRL logs a batch again while it trains on it",
                      logged_again_));
    }
    if (evaluated_ > 0) {
      remarks.push_back(
          fmt::format("{} steps were left out because TRL evaluated at them (eval_strategy): it "
                      "writes the completions of an evaluation over those of the step",
                      evaluated_));
    }
    if (interval_ > 1 && !no_step_) {
      remarks.push_back(fmt::format(
          "the dump has one of every {} steps, so the numbers are of a sample: {}", interval_,
          IsTrl() ? "TRL logs the last batch before each of its logging_steps, and no other"
                  : "what the steps between them sampled is not there"));
    }
    if (no_step_)
      remarks.push_back("the rows name no step: every " + std::to_string(kGroupsWithoutStep) +
                        " groups are shown as one step");
    if (rows_reader_ && !rows_reader_->rule().remark.empty())
      remarks.push_back(rows_reader_->rule().remark);
    if (comparable_ >= kManyGroups && constant_ == 0) {
      remarks.push_back(fmt::format(
          "none of {} groups is constant: what a trainer filters out (verl: "
          "algorithm.filter_groups) is not in its dump, so this is the ACR of what it kept",
          comparable_));
    }
    if (merged_ > 0) {
      remarks.push_back(std::to_string(merged_) +
                        " groups have twice the usual size or more: without a uid, two groups of "
                        "one prompt in a step are read as one");
    }
    return remarks;
  }

 private:
  // Reads the groups of the next step; pending_row_ keeps the row that follows them.
  Result<std::vector<GroupFacts>> ReadStep() {
    std::vector<GroupFacts> groups;
    std::unordered_map<std::uint64_t, std::size_t> of_key;
    std::size_t completions = 0;
    while (true) {
      if (!pending_row_) {
        BUTTRESS_ASSIGN_OR_RETURN(pending_row_, NextRow());
        if (!pending_row_) break;
      }
      const std::int64_t step = pending_row_->facts.step;
      if (!groups.empty() && step != groups[0].step) break;
      DumpRow row = std::move(*pending_row_);
      pending_row_.reset();
      completions += row.facts.completions.size();
      if (completions > kMaxStepCompletions) {
        return ResourceExhausted(fmt::format("{}: step {} has more than {} completions; split it",
                                             row.facts.where, step, kMaxStepCompletions));
      }
      const auto [place, fresh] = of_key.try_emplace(row.group, groups.size());
      if (row.whole_group || fresh) {
        groups.push_back(std::move(row.facts));
      } else {
        groups[place->second].completions.push_back(std::move(row.facts.completions[0]));
      }
    }
    if (bad_rows_ > 0 && !options_.skip_bad) {
      return InvalidArgument(fmt::format("{} bad {}; --skip-bad leaves them out:\n{}", bad_rows_,
                                         bad_rows_ == 1 ? "row" : "rows", errors_));
    }
    Count(groups);
    return groups;
  }

  // Opens the next file that is a dump, or returns null at the end. Dumps of one run have one
  // dialect, that of the first.
  Result<std::unique_ptr<LineReader>> OpenNext() {
    while (next_file_ < files_.size()) {
      const std::string& path = files_[next_file_++];
      Result<std::unique_ptr<LineReader>> opened = LineReader::Open(path);
      if (!opened.ok() && !IsAtWork() && !options_.skip_bad)
        return InvalidArgument(opened.status().message() + "; --skip-bad leaves the file out");
      Result<const Dialect*> dialect =
          opened.ok() ? DialectOf(**opened) : Result<const Dialect*>(opened.status());
      if (!dialect.ok() && IsAtWork() && (!opened.ok() || !HasLine(**opened))) {
        unfinished_ = std::filesystem::path(path).filename().string();
        continue;
      }
      if (dialect.ok() && rows_reader_ && *dialect != &rows_reader_->dialect())
        dialect = InvalidArgument(fmt::format("it is of {}, the files before it are of {}",
                                              (*dialect)->name, rows_reader_->dialect().name));
      if (!dialect.ok()) {
        LeaveOut(path, dialect.status());
        continue;
      }
      if (!rows_reader_) {
        BUTTRESS_ASSIGN_OR_RETURN(RewardRule rule, FindRule(**dialect));
        BUTTRESS_ASSIGN_OR_RETURN(rows_reader_,
                                  RowReader::Make(**dialect, options_, std::move(rule)));
      }
      ++dumps_;
      return *std::move(opened);
    }
    if (dumps_ > 0 || !unfinished_.empty()) return std::unique_ptr<LineReader>();
    return NotFound((others_ == 1 ? "not a dump: " : "no file is a dump: ") + other_files_);
  }

  // Whether a trainer may be at work on the file that was opened last.
  bool IsAtWork() const { return options_.growing && next_file_ == files_.size(); }

  static bool HasLine(const LineReader& file) {
    return file.number() > 1 || (file.number() == 1 && file.ended());
  }

  // Looks through the rows of the dump. Those that are none are reported when they are read.
  Result<RewardRule> FindRule(const Dialect& dialect) const {
    RewardSurvey survey(dialect, options_.rewards);
    for (std::size_t i = next_file_ - 1; i < files_.size() && !survey.settled(); ++i) {
      const Result<std::unique_ptr<LineReader>> file = LineReader::Open(files_[i]);
      if (!file.ok()) continue;  // which is said where its rows are read
      const Result<const Dialect*> own = DialectOf(**file);
      if (!own.ok() || *own != &dialect) continue;
      std::string_view line;
      while (!survey.settled()) {
        BUTTRESS_ASSIGN_OR_RETURN(const bool found, (*file)->Next(line));
        if (!found) break;
        nlohmann::json row = ParseLine(line);
        if (row.is_object() && HasTextsOfNumbers(dialect, (*file)->path()))
          ReadNumbers(dialect, row);
        survey.Add(row);
      }
    }
    return survey.Finish();
  }

  void LeaveOut(const std::string& path, const Status& why) {
    constexpr std::size_t kNamed = 5;
    if (++others_ > kNamed) return;
    other_files_ += (others_ == 1 ? "" : "; ") + path + ": " + why.message();
  }

  // Returns the next valid row with its step, or nullopt at the end. Records invalid rows.
  Result<std::optional<DumpRow>> NextRow() {
    while (true) {
      if (!reader_) {
        BUTTRESS_ASSIGN_OR_RETURN(reader_, OpenNext());
        if (!reader_) return std::optional<DumpRow>();
      }
      std::string_view line;
      BUTTRESS_ASSIGN_OR_RETURN(const bool found, reader_->Next(line));
      if (!found) {
        reader_.reset();
        continue;
      }
      if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
      const std::string where = std::filesystem::path(reader_->path()).filename().string() + ":" +
                                std::to_string(reader_->number());
      Result<DumpRow> row = ReadRow(line);
      if (row.ok()) row = AssignStep(*std::move(row), where);
      if (row.ok()) {
        gaps_.Add(row->gaps, where);
        MaskHugeRewards(row->facts);
        return std::optional<DumpRow>(*std::move(row));
      }
      if (IsAtWork() && !reader_->ended()) {
        unfinished_ = where;
        continue;
      }
      RecordError(where, row.status());
      // A file of another kind consists of errors only.
      if (bad_rows_ > kMaxErrors && rows_ == 0)
        return InvalidArgument(
            fmt::format("none of the first {} rows can be read:\n{}", bad_rows_, errors_));
    }
  }

  Result<DumpRow> ReadRow(std::string_view line) {
    nlohmann::json row = ParseLine(line);
    if (!row.is_object())
      return InvalidArgument("not a JSON object: " + (reader_->ended()
                                                          ? WhyNoObject(line)
                                                          : "the file ends inside this line"));
    if (HasTextsOfNumbers(rows_reader_->dialect(), reader_->path()))
      ReadNumbers(rows_reader_->dialect(), row);
    return rows_reader_->Read(row);
  }

  Result<DumpRow> AssignStep(DumpRow row, const std::string& where) {
    if (rows_ > 0 && row.step.has_value() == no_step_)
      return InvalidArgument(row.step ? "the row has a step; the rows before it have none"
                                      : "the row has no step; the rows before it have one");
    no_step_ = !row.step;
    if (no_step_) {
      if (rows_ == 0 || row.whole_group || row.group != last_group_) ++groups_without_step_;
      row.step = static_cast<std::int64_t>((groups_without_step_ - 1) / kGroupsWithoutStep);
      // A prompt that returns later in the file starts another group.
      row.group = MixSeed(last_group_ = row.group, groups_without_step_);
    }
    if (rows_ > 0 && *row.step < last_step_) {
      return InvalidArgument(
          fmt::format("step {} after step {}; sort the rows by step", *row.step, last_step_));
    }
    ++rows_;
    last_step_ = *row.step;
    row.facts.step = *row.step;
    row.facts.where = where;
    if (row.facts.prompt_id.empty()) row.facts.prompt_id = where;
    return row;
  }

  void MaskHugeRewards(GroupFacts& facts) {
    const std::string_view field = rows_reader_->dialect().reward;
    for (CompletionFacts& completion : facts.completions) {
      has_tokens_ = has_tokens_ || completion.tokens;
      const double reward = std::abs(completion.shaped_reward) > kMaxReward
                                ? completion.shaped_reward
                                : completion.raw_reward;
      if (!MaskHugeReward(completion) || ++huge_rewards_ > 1) continue;
      first_huge_ = fmt::format("{}: {} = {}", facts.where,
                                field.empty() ? "the sum of the columns" : field, reward);
    }
  }

  std::string TokensField() const {
    const std::string_view field = rows_reader_->dialect().tokens;
    return field.empty() ? "" : fmt::format(" ({})", field);
  }

  void RecordError(const std::string& where, const Status& status) {
    if (++bad_rows_ <= kMaxErrors)
      errors_ += (errors_.empty() ? "" : "\n") + where + ": " + status.message();
  }

  bool IsTrl() const { return rows_reader_ && rows_reader_->dialect().name == "trl"; }

  // The interval of most dumps is 1; the first step, which a trainer may log as well, is in none.
  void NoteInterval(std::int64_t step) {
    if (steps_ > 1) interval_ = std::gcd(interval_, step - previous_step_);
    ++steps_;
    previous_step_ = step;
  }

  bool IsEvaluated(const std::vector<GroupFacts>& groups) {
    if (!IsTrl()) return false;
    if (!evaluations_) evaluations_ = EvaluationsOf(files_[next_file_ - 1]);
    const bool evaluated = evaluations_->At(groups[0].step);
    evaluated_ += evaluated ? 1 : 0;
    return evaluated;
  }

  bool IsLoggedAgain(const std::vector<GroupFacts>& groups) {
    if (!IsTrl()) return false;
    std::uint64_t digest = 1;
    for (const GroupFacts& group : groups) {
      digest = MixSeed(digest, HashText(group.prompt_id));
      for (const CompletionFacts& c : group.completions) digest = MixSeed(digest, c.text.digest);
    }
    const bool again = digest == last_digest_;
    last_digest_ = digest;
    logged_again_ += again ? 1 : 0;
    return again;
  }

  void Count(const std::vector<GroupFacts>& groups) {
    for (const GroupFacts& group : groups) {
      const CollapseClass collapse = group.collapse();
      constant_ += IsConstant(collapse) ? 1 : 0;
      comparable_ += IsConstant(collapse) || collapse == CollapseClass::kMixed ? 1 : 0;
      if (rows_reader_->dialect().name == "groups") continue;
      usual_size_ = usual_size_ == 0
                        ? group.completions.size()
                        : std::min(usual_size_, std::max<std::size_t>(2, group.completions.size()));
      merged_ += group.completions.size() >= 2 * usual_size_ ? 1 : 0;
    }
  }

  const std::vector<std::string> files_;
  const StepSourceOptions options_;
  const std::vector<std::string> first_remarks_;
  std::string unfinished_;  // the line or file that is being written, of a dump that grows
  std::size_t next_file_ = 0;
  std::unique_ptr<LineReader> reader_;
  std::optional<RowReader> rows_reader_;
  std::optional<DumpRow> pending_row_;
  std::size_t dumps_ = 0;    // files that are dumps
  std::size_t others_ = 0;   // files that are none
  std::string other_files_;  // the first of them, with what they are
  std::int64_t rows_ = 0;
  std::int64_t last_step_ = 0;
  bool no_step_ = false;
  std::uint64_t last_group_ = 0;
  std::uint64_t groups_without_step_ = 0;
  std::size_t bad_rows_ = 0;
  std::string errors_;
  Gaps gaps_;
  bool has_tokens_ = false;
  std::int64_t huge_rewards_ = 0;
  std::string first_huge_;
  std::int64_t steps_ = 0;  // read so far
  std::int64_t previous_step_ = 0;
  std::int64_t interval_ = 0;  // between steps
  std::optional<TrlEvaluations> evaluations_;
  std::int64_t evaluated_ = 0;
  std::uint64_t last_digest_ = 0;
  std::int64_t logged_again_ = 0;
  std::int64_t comparable_ = 0;  // groups that are constant or mixed
  std::int64_t constant_ = 0;
  std::size_t usual_size_ = 0;
  std::int64_t merged_ = 0;
};

}  // namespace

Result<std::unique_ptr<StepSource>> OpenDumpSteps(std::vector<std::string> files,
                                                  const StepSourceOptions& options,
                                                  std::vector<std::string> remarks) {
  return std::unique_ptr<StepSource>(
      std::make_unique<DumpSteps>(std::move(files), options, std::move(remarks)));
}

}  // namespace buttress
