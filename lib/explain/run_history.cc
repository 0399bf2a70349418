#include "lib/explain/run_history.h"

#include <algorithm>
#include <cmath>

#include "lib/explain/rates.h"

namespace buttress {
namespace {

// Returns the length at which many completions end exactly, unless as many end a little before.
std::optional<std::int32_t> FindLimit(const std::vector<std::int32_t>& tokens,
                                      const CauseRules& rules) {
  const std::int32_t longest = *std::ranges::max_element(tokens);
  const auto at_limit = static_cast<double>(std::ranges::count(tokens, longest));
  const double near = rules.limit_near * longest;
  const auto below = static_cast<double>(
      std::ranges::count_if(tokens, [&](std::int32_t n) { return n < longest && n >= near; }));
  const double many = std::max(5.0, 0.01 * static_cast<double>(tokens.size()));
  const double usual = below / std::max(1.0, longest - near);
  const bool limit =
      longest >= rules.shortest_limit && at_limit >= many && at_limit >= rules.limit_spike * usual;
  return limit ? std::optional(longest) : std::nullopt;
}

std::uint32_t Shortened(std::uint64_t digest) {
  return static_cast<std::uint32_t>(digest ^ (digest >> 32));
}

// Returns the common reward of a group with at least two scorable completions, if there is one.
std::optional<double> ConstantOf(const GroupFacts& group) {
  std::int64_t scorable = 0;
  double value = 0;
  for (const CompletionFacts& c : group.completions) {
    if (!c.scorable()) continue;
    if (scorable++ == 0) value = c.deciding_reward;
    if (!EqualRewards(c.deciding_reward, value)) return std::nullopt;
  }
  return scorable >= 2 ? std::optional(value) : std::nullopt;
}

bool DependsOnPrompt(Cause cause) {
  return cause == Cause::kTooEasy || cause == Cause::kTooHard || cause == Cause::kModeCollapsed ||
         cause == Cause::kUnknown || cause == Cause::kEasySource || cause == Cause::kHardSource ||
         cause == Cause::kEqualRewards || cause == Cause::kNeverRight ||
         cause == Cause::kAgainstHistory;
}

template <class Value>
void Push(std::deque<Value>& values, Value value, std::size_t bound) {
  values.push_back(value);
  if (values.size() > bound) values.pop_front();
}

}  // namespace

bool RunHistory::IsSuccess(const CompletionFacts& c) const {
  if (c.outcome != Outcome::kUnspecified) return c.outcome == Outcome::kCorrect;
  return highest_ > lowest_ ? c.deciding_reward >= (lowest_ + highest_) / 2 : c.deciding_reward > 0;
}

bool RunHistory::IsBest(double value) const {
  return highest_ > lowest_ && EqualRewards(value, highest_);
}

bool RunHistory::IsWorst(double value) const {
  return !IsBest(value) && EqualRewards(value, lowest_);
}

PromptHistory RunHistory::HistoryOf(const GroupFacts& group) const {
  if (group.history) return *group.history;
  const auto found = prompts_.find(group.prompt_id);
  return found == prompts_.end() ? PromptHistory{} : found->second.history;
}

PromptHistory RunHistory::RecentOf(const GroupFacts& group) const {
  const auto found = prompts_.find(group.prompt_id);
  if (found == prompts_.end()) return group.history.value_or(PromptHistory{});
  PromptHistory recent;
  for (const PromptVisit& visit : found->second.visits) {
    if (group.step - visit.step <= rules_.history_steps)
      recent.Add({visit.correct, visit.scored}, kVisitDecay);
  }
  return recent;
}

Trials RunHistory::VisitsOf(const GroupFacts& group) const {
  const auto found = prompts_.find(group.prompt_id);
  if (found == prompts_.end() || found->second.visits.empty() ||
      found->second.visits.back().correct == 0)
    return {};
  Trials sum;
  for (const PromptVisit& visit : found->second.visits) {
    if (group.step - visit.step > rules_.history_steps) continue;
    sum.correct += visit.correct;
    sum.scored += visit.scored;
  }
  return sum;
}

std::optional<double> RunHistory::similarity() const {
  if (similarities_.empty()) return std::nullopt;
  double sum = 0;
  for (const double value : similarities_) sum += value;
  return sum / static_cast<double>(similarities_.size());
}

// Adds what the contexts of this step need: ranges, lengths, similarities, agreement.
void RunHistory::Observe(std::span<const GroupFacts> groups) {
  for (const GroupFacts& group : groups) {
    const bool mixed = group.collapse() == CollapseClass::kMixed;
    for (const CompletionFacts& c : group.completions) {
      if (c.text.known() || c.tokens)
        Push(recent_, {c.text.length, c.tokens.value_or(0), c.text.ends_midway, c.text.known()},
             kRecent);
      if (!c.has_verdict()) continue;
      lowest_ = seen_reward_ ? std::min(lowest_, c.deciding_reward) : c.deciding_reward;
      highest_ = seen_reward_ ? std::max(highest_, c.deciding_reward) : c.deciding_reward;
      seen_reward_ = true;
    }
    const GroupCopies copies = FindCopies(group);
    if (copies.known >= 2 && copies.words >= rules_.room_words)
      Push(similarities_, copies.similarity, kRecentGroups);
    for (const CompletionFacts& c : group.completions) {
      if (!mixed || !c.states_truth || !c.has_verdict()) continue;
      if (IsSuccess(c)) {
        ++truth_.right;
        truth_.right_unstated += *c.states_truth ? 0 : 1;
      } else {
        ++truth_.wrong;
        truth_.wrong_stated += *c.states_truth ? 1 : 0;
      }
    }
  }
}

ConstantAt RunHistory::Place(double value) const {
  return IsBest(value)    ? ConstantAt::kBest
         : IsWorst(value) ? ConstantAt::kWorst
                          : ConstantAt::kBetween;
}

void RunHistory::AddToStep(const GroupFacts& group, SourceStep& step) const {
  const std::optional<double> value = ConstantOf(group);
  if (step.groups++ == 0) step.value = value.value_or(0);
  step.constant = step.constant && value && EqualRewards(*value, step.value);
  if (!value) return;
  const ConstantAt at = Place(*value);
  step.best += at == ConstantAt::kBest ? 1 : 0;
  step.worst += at == ConstantAt::kWorst ? 1 : 0;
  if (!step.constant) return;
  const auto source = sources_.find(group.source);
  const double rate = source == sources_.end() ? 1.0 : source->second.record.MostRate(at, rules_);
  const Trials history = TrialsOf(RecentOf(group));
  const auto n = static_cast<std::int64_t>(group.completions.size());
  const Difficulty& difficulty = DifficultyOf(group.source);
  const double own = history.scored == 0       ? 0.0
                     : at == ConstantAt::kBest ? difficulty.AllCorrect(history, n)
                                               : difficulty.AllWrong(history, n);
  step.chance *= std::max(rate, own);
}

// Finds the sources of which a second verifier, where it agrees with mixed groups, agrees with the
// verdicts of this step.
void RunHistory::SetConfirmed(std::span<const GroupFacts> groups) {
  if (truth_.known() < rules_.truth_count ||
      Share(truth_.agree(), truth_.known()) < rules_.truth_agreement)
    return;

  struct Verdicts {
    std::int64_t known = 0, agree = 0;
  };

  std::map<std::string, Verdicts> of_source;
  for (const GroupFacts& group : groups) {
    Verdicts& verdicts = of_source[group.source];
    for (const CompletionFacts& c : group.completions) {
      if (!c.states_truth || !c.has_verdict()) continue;
      ++verdicts.known;
      verdicts.agree += *c.states_truth == IsSuccess(c) ? 1 : 0;
    }
  }
  for (const auto& [name, verdicts] : of_source) {
    steps_[name].confirmed = verdicts.known >= rules_.confirming_count &&
                             Share(verdicts.agree, verdicts.known) >= rules_.truth_agreement;
  }
}

void RunHistory::SetSteps(std::span<const GroupFacts> groups) {
  steps_.clear();
  for (const GroupFacts& group : groups) AddToStep(group, steps_[group.source]);
  SetConfirmed(groups);
  for (auto& [name, step] : steps_) sources_[name].record.SetStreak(step);
}

// Finds the token limit. For dumps of texts alone it finds the length of long completions, unless
// the shorter half ends midway as well.
void RunHistory::SetLengths(GroupContext& context) const {
  constexpr std::size_t kEnough = 32;
  std::vector<std::int32_t> tokens, lengths;
  for (const Recent& r : recent_) {
    if (r.tokens > 0) tokens.push_back(r.tokens);
    if (r.has_text) lengths.push_back(r.length);
  }
  if (tokens.size() >= kEnough) context.token_limit = FindLimit(tokens, rules_);
  if (lengths.size() < kEnough) return;
  std::ranges::sort(lengths);
  const std::int32_t middle = lengths[lengths.size() / 2];
  std::int64_t shorter = 0, midway = 0;
  for (const Recent& r : recent_) {
    if (!r.has_text || r.length > middle) continue;
    ++shorter;
    midway += r.ends_midway ? 1 : 0;
  }
  if (static_cast<double>(midway) > rules_.midway_base * static_cast<double>(shorter)) return;
  context.long_length = lengths[static_cast<std::size_t>(rules_.long_quantile *
                                                         static_cast<double>(lengths.size() - 1))];
}

void RunHistory::SetRepeats(const GroupFacts& group, GroupContext& context) const {
  const auto found = prompts_.find(group.prompt_id);
  if (found == prompts_.end()) return;
  const SeenPrompt& prompt = found->second;
  context.last_visit = prompt.last_step;
  if (prompt.last_texts.empty()) return;
  std::int64_t known = 0, repeated = 0;
  for (const CompletionFacts& c : group.completions) {
    if (!c.text.known()) continue;
    ++known;
    repeated += std::ranges::count(prompt.last_texts, Shortened(c.text.digest)) > 0 ? 1 : 0;
  }
  if (known == 0) return;
  context.repeated_share = Share(repeated, std::min<std::int64_t>(known, kLastTexts));
  context.repeated_step = prompt.last_step;
}

std::vector<GroupContext> RunHistory::Contexts(std::span<const GroupFacts> groups) {
  Observe(groups);
  SetSteps(groups);
  GroupContext common;
  common.lowest = lowest_;
  common.highest = highest_;
  common.similarity = similarity();
  if (truth_.known() >= rules_.truth_count)
    common.truth_agreement = Share(truth_.agree(), truth_.known());
  SetLengths(common);
  std::vector<GroupContext> contexts;
  for (const GroupFacts& group : groups) {
    GroupContext& context = contexts.emplace_back(common);
    SetRepeats(group, context);
    const PromptHistory recent = RecentOf(group);
    context.past_correct = recent.recent_correct;
    context.past_scored = recent.recent_scored;
    const Trials visits = VisitsOf(group);
    context.visits_correct = visits.correct;
    context.visits_scored = visits.scored;
    const SourceStep& step = steps_.at(group.source);
    if (step.constant && !step.confirmed) context.constant_chance = step.streak_chance;
    context.constant_groups = step.streak_groups;
    context.constant_steps = step.streak_steps;
    const Source& source = sources_.at(group.source);
    const double value = step.value;
    const bool plain = value == 0 || value == 1 || value == -1 ||
                       (highest_ > lowest_ && (IsBest(value) || IsWorst(value)));
    context.difficulty = DifficultyOf(group.source);
    context.difficulty_groups = source.fitted;
    if (source.all_groups >= rules_.verifier_memory && source.right == 0)
      context.never_right = source.judged;
    if (source.groups < rules_.verifier_memory) continue;
    context.constant_always =
        step.constant && !plain && source.low == value && source.high == value;
  }
  return contexts;
}

// Records the rewards of a group for its source, and for its prompt unless `prompt` is null.
void RunHistory::RecordRewards(const GroupFacts& group, SeenPrompt* prompt) {
  Source& source = sources_[group.source];
  ++source.groups;
  const Trials before = TrialsOf(RecentOf(group));
  std::int64_t correct = 0, scored = 0;
  for (const CompletionFacts& c : group.completions) {
    if (!c.has_verdict()) continue;
    source.low =
        source.completions == 0 ? c.deciding_reward : std::min(source.low, c.deciding_reward);
    source.high =
        source.completions == 0 ? c.deciding_reward : std::max(source.high, c.deciding_reward);
    ++source.completions;
    ++scored;
    correct += IsSuccess(c) ? 1 : 0;
  }
  source.recent.Add(++recorded_,
                    {before, {static_cast<double>(correct), static_cast<double>(scored)}});
  ++source.since_fit;
  if (prompt == nullptr) return;
  prompt->history.Add({correct, scored}, kVisitDecay);
  prompt->visits.push_back(
      {group.step, static_cast<std::int32_t>(correct), static_cast<std::int32_t>(scored)});
  if (prompt->visits.size() > kVisits) prompt->visits.erase(prompt->visits.begin());
}

// Fits again what has a sixteenth of new groups.
void RunHistory::FitDifficulty() {
  for (auto& [name, source] : sources_) {
    if (16 * source.since_fit < static_cast<std::int64_t>(source.recent.groups())) continue;
    if (source.since_fit == 0) continue;
    source.difficulty = source.recent.Fit();
    source.since_fit = 0;
    source.fitted = static_cast<std::int64_t>(source.recent.groups());
  }
}

const Difficulty& RunHistory::DifficultyOf(const std::string& source) const {
  static const Difficulty kUniform;
  const auto found = sources_.find(source);
  return found == sources_.end() ? kUniform : found->second.difficulty;
}

std::map<std::string, SourceDifficulty> RunHistory::Difficulties() const {
  std::map<std::string, SourceDifficulty> difficulties;
  for (const auto& [name, source] : sources_) {
    const auto drawn = std::ranges::count(drawn_, name);
    if (source.fitted == 0 || drawn == 0) continue;
    difficulties[name] = {source.difficulty,
                          Share(drawn, static_cast<std::int64_t>(drawn_.size()))};
  }
  return difficulties;
}

std::map<std::string, std::int64_t> RunHistory::NeverRight() const {
  std::map<std::string, std::int64_t> completions;
  for (const auto& [name, source] : sources_) {
    if (source.all_groups >= rules_.verifier_memory && source.judged > 0 && source.right == 0)
      completions[name] = source.judged;
  }
  return completions;
}

void RunHistory::Record(std::span<const GroupFacts> groups,
                        std::span<const std::optional<Cause>> causes) {
  for (const auto& [name, step] : steps_) sources_[name].record.Add(step, rules_);
  for (std::size_t k = 0; k < groups.size(); ++k) {
    const GroupFacts& group = groups[k];
    Push(drawn_, group.source, kDrawn);
    SeenPrompt* prompt = nullptr;
    if (prompts_.size() < kMaxPrompts || prompts_.contains(group.prompt_id)) {
      prompt = &prompts_[group.prompt_id];
    } else {
      prompts_left_out_ = true;
    }
    if (!causes[k] || DependsOnPrompt(*causes[k])) RecordRewards(group, prompt);
    Source& source = sources_[group.source];
    ++source.all_groups;
    for (const CompletionFacts& c : group.completions) {
      source.judged += c.has_verdict() ? 1 : 0;
      source.right += c.has_verdict() && IsSuccess(c) ? 1 : 0;
    }
    if (prompt == nullptr) continue;
    prompt->source = group.source;
    ++prompt->groups;
    prompt->last_collapsed = causes[k].has_value();
    prompt->collapsed += prompt->last_collapsed ? 1 : 0;
    prompt->last_step = group.step;
    prompt->last_texts.clear();
    for (const CompletionFacts& c : group.completions) {
      if (c.text.known() && prompt->last_texts.size() < kLastTexts)
        prompt->last_texts.push_back(Shortened(c.text.digest));
    }
  }
  FitDifficulty();
}

}  // namespace buttress
