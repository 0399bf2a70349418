#include "rollout_worker/evaluation/eval_loop.h"

#include <chrono>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "lib/base/os/clock.h"
#include "lib/base/os/shutdown.h"
#include "lib/base/report/log.h"
#include "lib/base/report/metrics.h"
#include "lib/base/text/random.h"
#include "rollout_worker/evaluation/episode_sampler.h"
#include "rollout_worker/scoring/scoring_pool.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kPollWait(100);
constexpr double kProgressSeconds = 10;

double Rounded(double value) { return std::round(10 * value) / 10; }

class Evaluation {
 public:
  Evaluation(const EvalInputs& inputs, const SamplingParams& sampling, std::int64_t completions,
             const Tokenizer& tokenizer, ScoringPool& scoring, EvalSampler& sampler)
      : inputs_(inputs),
        sampling_(sampling),
        completions_(completions),
        tokenizer_(tokenizer),
        scoring_(scoring),
        sampler_(sampler) {}

  Result<EvalResult> Run() {
    std::set<std::int64_t> done;
    if (inputs_.results) {
      for (const EvalPrompt& prompt : inputs_.results->found().prompts) {
        if (prompt.row >= inputs_.rows) continue;
        done.insert(prompt.row);
        Add(prompt);
      }
      seconds_before_ = inputs_.results->found().seconds;
    }
    BUTTRESS_RETURN_IF_ERROR(AddPrompts(done));
    if (!done.empty()) Log(kInfo, "continuing", {{"done", done.size()}, {"prompts", of_}});
    double reported = started_;
    while (sampler_.open() > 0) {
      if (ShutdownRequested()) return Cancelled("interrupted");
      BUTTRESS_ASSIGN_OR_RETURN(std::vector<SampledCompletion> sampled, sampler_.Step());
      for (SampledCompletion& completion : sampled)
        BUTTRESS_RETURN_IF_ERROR(Score(std::move(completion)));
      BUTTRESS_RETURN_IF_ERROR(Count(scoring_.Poll(std::chrono::milliseconds(0))));
      if (MonotonicSeconds() - reported > kProgressSeconds) {
        reported = MonotonicSeconds();
        TellProgress(static_cast<std::int64_t>(done.size()));
      }
    }
    while (scoring_.inside() > 0) BUTTRESS_RETURN_IF_ERROR(Count(scoring_.Poll(kPollWait)));
    result_.seconds = of_ > static_cast<std::int64_t>(done.size()) ? Seconds() : seconds_before_;
    return result_;
  }

 private:
  // Queues all samples before the first step, so that every run decodes the same batches and gives
  // the same bits.
  Status AddPrompts(const std::set<std::int64_t>& done) {
    for (std::int64_t row = 0; row < inputs_.rows; ++row) {
      const Result<Prompt> read = inputs_.read(row);
      if (read.status().code() == StatusCode::kOutOfRange) continue;  // over_long: drop
      BUTTRESS_RETURN_IF_ERROR(read.status());
      if (!done.contains(row)) {
        const Status added = Queue(row, *read);
        if (added.code() == StatusCode::kOutOfRange) {
          Log(kWarn, "a prompt is left out", {{"error", added.message()}});
          continue;
        }
        BUTTRESS_RETURN_IF_ERROR(added);
      }
      ++of_;
    }
    return OkStatus();
  }

  SamplingParams SamplingOf(const Prompt& prompt) const {
    SamplingParams own = sampling_;
    if (const auto most = inputs_.max_tokens.find(prompt.source); most != inputs_.max_tokens.end())
      own.max_tokens = most->second;
    return own;
  }

  Status Queue(std::int64_t row, const Prompt& prompt) {
    SamplingParams own = SamplingOf(prompt);
    for (std::int64_t i = 0; i < completions_; ++i) {
      const auto key = static_cast<std::uint64_t>(row * completions_ + i);
      own.seed = MixSeed(sampling_.seed, key);
      BUTTRESS_RETURN_IF_ERROR(sampler_.Add(key, prompt, own).Annotate("prompt " + prompt.id));
    }
    return OkStatus();
  }

  Status Score(SampledCompletion completion) {
    const auto row = static_cast<std::int64_t>(completion.key) / completions_;
    std::vector<SampledCompletion>& completions = unfinished_[row];
    completions.push_back(std::move(completion));
    if (static_cast<std::int64_t>(completions.size()) < completions_) return OkStatus();
    std::ranges::sort(completions, {}, &SampledCompletion::key);
    BUTTRESS_ASSIGN_OR_RETURN(Prompt prompt, inputs_.read(row));
    if (inputs_.on_sampled) BUTTRESS_RETURN_IF_ERROR(inputs_.on_sampled(prompt, completions));
    ScoreRequest request;
    for (SampledCompletion& one : completions) {
      EngineResult& sample = request.samples.emplace_back();
      sample.id.group_id = static_cast<std::uint64_t>(row);
      sample.id.index = static_cast<std::int32_t>(request.samples.size() - 1);
      sample.finish_reason = one.finish_reason;
      sample.token_ids = std::move(one.token_ids);
      if (sampler_.only_texts()) request.texts.push_back(std::move(one.text));
      EvalCompletion& scored = scored_[row].completions.emplace_back();
      scored.tokens = one.tokens;
      if (one.episode) scored.episode = EvalEpisodeOf(*one.episode);
      sample.episode = std::move(one.episode);
    }
    unfinished_.erase(row);
    request.source = prompt.source;
    request.answer = prompt.answer;
    request.extra_json = prompt.extra_json;
    BUTTRESS_ASSIGN_OR_RETURN(request.prompt,
                              tokenizer_.Decode(prompt.token_ids, SpecialTokens::kKeep));
    request.sampling = SamplingOf(prompt);
    while (!scoring_.Submit(request).ok())
      BUTTRESS_RETURN_IF_ERROR(Count(scoring_.Poll(kPollWait)));
    return OkStatus();
  }

  Status Count(const std::vector<ScoredCompletion>& scored) {
    for (const auto& [sample, verdict, second_outcome] : scored) {
      const auto row = static_cast<std::int64_t>(sample.id.group_id);
      EvalPrompt& prompt = scored_[row];
      EvalCompletion& completion = prompt.completions[static_cast<std::size_t>(sample.id.index)];
      completion.outcome = verdict.outcome;
      completion.answer = verdict.given;
      completion.reward = verdict.outcome == Outcome::kUnscorable ? 0 : TotalReward(verdict);
      completion.truncated = sample.finish_reason == FinishReason::kLength;
      // A request has all completions of a prompt, and its results come together.
      if (sample.id.index + 1 < completions_) continue;
      prompt.row = row;
      Add(prompt);
      if (inputs_.results) BUTTRESS_RETURN_IF_ERROR(inputs_.results->Append(prompt, Seconds()));
      scored_.erase(row);
    }
    return OkStatus();
  }

  void Add(const EvalPrompt& prompt) {
    result_.Add(prompt);
    if (inputs_.on_scored) inputs_.on_scored(prompt);
  }

  double Seconds() const { return seconds_before_ + MonotonicSeconds() - started_; }

  // `before`: prompts that were done before this process started.
  void TellProgress(std::int64_t before) const {
    if (result_.prompts == before)
      return Log(kInfo, "evaluating", {{"prompts", result_.prompts}, {"of", of_}});
    const double per_second =
        static_cast<double>(result_.prompts - before) / (MonotonicSeconds() - started_);
    const double left = static_cast<double>(of_ - result_.prompts) / per_second;
    const std::string accuracy = PercentText(result_.scores.Avg());
    Log(kInfo, "evaluating",
        {{"prompts", result_.prompts},
         {"of", of_},
         {"prompts_per_minute", Rounded(60 * per_second)},
         {"minutes_left", Rounded(left / 60)},
         {"accuracy", accuracy.substr(accuracy.find_first_not_of(' '))}});
  }

  const EvalInputs& inputs_;
  const SamplingParams sampling_;
  const std::int64_t completions_;  // per prompt
  const Tokenizer& tokenizer_;
  ScoringPool& scoring_;
  EvalSampler& sampler_;
  std::int64_t of_ = 0;  // prompts
  const double started_ = MonotonicSeconds();
  double seconds_before_ = 0;  // of earlier processes
  // By row, until all completions of the prompt are there, and until they have verdicts.
  std::map<std::int64_t, std::vector<SampledCompletion>> unfinished_;
  std::map<std::int64_t, EvalPrompt> scored_;
  EvalResult result_;
};

}  // namespace

Result<EvalResult> RunEvaluation(const EvalInputs& inputs, const SamplingParams& sampling,
                                 std::int64_t completions, const RewardConfig& reward,
                                 const Tokenizer& tokenizer, EvalSampler& sampler) {
  Metrics metrics("worker");
  const auto scoring =
      ScoringPool::Start(inputs.verifiers, tokenizer, ScoringOptionsOf(reward), metrics);
  return Evaluation(inputs, sampling, completions, tokenizer, *scoring, sampler).Run();
}

}  // namespace buttress
