#include "rollout_worker/evaluation/eval.h"

#include <torch/types.h>

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "lib/base/os/clock.h"
#include "lib/base/os/shutdown.h"
#include "lib/base/report/log.h"
#include "lib/base/text/random.h"
#include "lib/collectives/cuda_library.h"
#include "lib/data/prompt_file.h"
#include "lib/policy/adapters/adapted_model.h"
#include "lib/policy/decode/generator.h"
#include "lib/policy/stop_set.h"
#include "lib/policy/transformer.h"
#include "lib/policy/weights/finite_check.h"
#include "lib/tokenizer/tokenizer.h"
#include "lib/verify/verifier.h"
#include "rollout_worker/scoring/scoring_pool.h"

namespace buttress {
namespace {

constexpr std::chrono::milliseconds kPollWait(100);
constexpr double kProgressSeconds = 10;

class Evaluation {
 public:
  Evaluation(const PromptFile& file, const Tokenizer& tokenizer, ScoringPool& scoring,
             const Transformer& model, Generator& generator, std::int64_t prompts,
             std::int64_t completions)
      : file_(file),
        tokenizer_(tokenizer),
        scoring_(scoring),
        model_(model),
        generator_(generator),
        prompts_(prompts),
        completions_(completions) {}

  Result<EvalResult> Run(const SamplingParams& sampling) {
    const double started = MonotonicSeconds();
    // Queues all samples before the first step, so that every run decodes the same batches and
    // gives the same bits.
    for (std::int64_t row = 0; row < prompts_; ++row) {
      const auto read = file_.Read(static_cast<std::size_t>(row));
      if (read.status().code() == StatusCode::kOutOfRange) continue;  // over_long: drop
      BUTTRESS_RETURN_IF_ERROR(read.status());
      const Prompt& prompt = *read;
      const Status added = Add(row, prompt, sampling);
      if (added.code() == StatusCode::kOutOfRange) {
        Log(kWarn, "a prompt is left out", {{"error", added.message()}});
        continue;
      }
      BUTTRESS_RETURN_IF_ERROR(added);
      ++result_.prompts;
    }
    double reported = started;
    while (generator_.running() + generator_.waiting() > 0) {
      if (ShutdownRequested()) return Cancelled("interrupted");
      for (GeneratedSequence& sequence : generator_.Step())
        BUTTRESS_RETURN_IF_ERROR(Score(std::move(sequence), sampling));
      Count(scoring_.Poll(std::chrono::milliseconds(0)));
      if (MonotonicSeconds() - reported > kProgressSeconds) {
        reported = MonotonicSeconds();
        Log(kInfo, "evaluating",
            {{"completions", result_.completions},
             {"of", result_.prompts * completions_},
             {"correct", result_.correct}});
      }
    }
    while (scoring_.inside() > 0) Count(scoring_.Poll(kPollWait));
    result_.seconds = MonotonicSeconds() - started;
    return result_;
  }

 private:
  Status Add(std::int64_t row, const Prompt& prompt, const SamplingParams& sampling) {
    for (std::int64_t i = 0; i < completions_; ++i) {
      const auto key = static_cast<std::uint64_t>(row * completions_ + i);
      SamplingParams own = sampling;
      own.seed = MixSeed(sampling.seed, key);
      BUTTRESS_RETURN_IF_ERROR(
          generator_.Add(key, prompt.token_ids, own, &tokenizer_).Annotate("prompt " + prompt.id));
    }
    return OkStatus();
  }

  Status Score(GeneratedSequence sequence, const SamplingParams& sampling) {
    if (sequence.finish_reason == FinishReason::kError) {
      BUTTRESS_RETURN_IF_ERROR(
          CheckFinite(model_.parameters(), "the weights of the model", "evaluate another one"));
      return DataLoss(
          "the logits of the model are not finite, though its weights are; check its "
          "config.json, or evaluate it in float32");
    }
    const auto row = static_cast<std::int64_t>(sequence.key) / completions_;
    std::vector<EngineResult>& samples = unfinished_[row];
    EngineResult& sample = samples.emplace_back();
    sample.id.group_id = static_cast<std::uint64_t>(row);
    sample.id.index =
        static_cast<std::int32_t>(static_cast<std::int64_t>(sequence.key) % completions_);
    sample.finish_reason = sequence.finish_reason;
    sample.token_ids = std::move(sequence.token_ids);
    if (static_cast<std::int64_t>(samples.size()) < completions_) return OkStatus();
    std::ranges::sort(samples, {}, &EngineResult::id);
    BUTTRESS_ASSIGN_OR_RETURN(Prompt prompt, file_.Read(static_cast<std::size_t>(row)));
    ScoreRequest request;
    request.samples = std::move(samples);
    unfinished_.erase(row);
    request.source = prompt.source;
    request.answer = prompt.answer;
    request.extra_json = prompt.extra_json;
    BUTTRESS_ASSIGN_OR_RETURN(request.prompt,
                              tokenizer_.Decode(prompt.token_ids, SpecialTokens::kKeep));
    request.sampling = sampling;
    while (!scoring_.Submit(request).ok()) Count(scoring_.Poll(kPollWait));
    return OkStatus();
  }

  void Count(const std::vector<ScoredCompletion>& scored) {
    for (const auto& [sample, verdict, second_outcome] : scored) {
      ++result_.completions;
      result_.scores.Add(static_cast<std::int64_t>(sample.id.group_id), verdict);
      result_.correct += verdict.outcome == Outcome::kCorrect ? 1 : 0;
      result_.wrong += verdict.outcome == Outcome::kWrong ? 1 : 0;
      result_.unscorable += verdict.outcome == Outcome::kUnscorable ? 1 : 0;
      result_.truncated += sample.finish_reason == FinishReason::kLength ? 1 : 0;
      result_.tokens += static_cast<std::int64_t>(sample.token_ids.size());
      if (verdict.outcome != Outcome::kUnscorable) result_.raw_reward += TotalReward(verdict);
    }
  }

  const PromptFile& file_;
  const Tokenizer& tokenizer_;
  ScoringPool& scoring_;
  const Transformer& model_;
  Generator& generator_;
  const std::int64_t prompts_;
  const std::int64_t completions_;  // per prompt
  // By row, until all completions of the prompt are there.
  std::map<std::int64_t, std::vector<EngineResult>> unfinished_;
  EvalResult result_;
};

}  // namespace

EvalOptions EvalOptionsOf(const RunConfig& config) {
  const SamplingConfig& sampling = config.run.sampling;
  EvalOptions options;
  options.model = config.run.model;
  options.prompts = config.run.data.held_out;
  options.data = config.run.data;
  options.reward = config.run.reward;
  options.worker = config.local.worker;
  options.sampling.temperature = 0;
  options.sampling.seed = config.run.seed;
  options.sampling.max_tokens = static_cast<std::int32_t>(sampling.max_tokens);
  options.sampling.stop_token_ids.assign(sampling.stop_token_ids.begin(),
                                         sampling.stop_token_ids.end());
  options.sampling.stop = sampling.stop;
  options.sampling.include_stop = sampling.include_stop;
  return options;
}

Result<EvalResult> Evaluate(const EvalOptions& options) {
  ModelDevice device{.cuda = options.worker.device == ComputeDevice::kCuda, .index = 0};
  if (device.cuda) {
    BUTTRESS_ASSIGN_OR_RETURN(device.index, OpenGpu(options.worker.gpu, "eval", "--device cpu"));
  }
  BUTTRESS_ASSIGN_OR_RETURN(const auto tokenizer, Tokenizer::Load(options.model.path));
  BUTTRESS_ASSIGN_OR_RETURN(
      const auto file,
      PromptFile::Open(options.prompts, options.data, *tokenizer, AnswerFormsOf(options.reward)));
  BUTTRESS_ASSIGN_OR_RETURN(const DroppedRows dropped, file->CheckRows(/*stop=*/false));
  if (dropped.count > 0) {
    Log(kWarn, "prompts longer than run.data.max_prompt_tokens are left out",
        {{"dropped", dropped.count}, {"lines", dropped.first}});
  }
  BUTTRESS_ASSIGN_OR_RETURN(auto verifiers, VerifierSet::Make(options.reward));
  BUTTRESS_ASSIGN_OR_RETURN(const auto model,
                            Transformer::Load(options.model.path, options.model.dtype, device));
  if (!options.adapter.empty()) BUTTRESS_RETURN_IF_ERROR(AddAdapters(options.adapter, *model));
  SamplingParams sampling = options.sampling;
  BUTTRESS_RETURN_IF_ERROR(
      DecideStops(model->config(), tokenizer.get(), sampling).Annotate("run.sampling"));
  Metrics metrics("worker");
  ScoringOptions scoring_options;
  scoring_options.timeout = std::chrono::milliseconds(options.reward.timeout_ms);
  const auto scoring =
      ScoringPool::Start(std::move(verifiers), *tokenizer, scoring_options, metrics);
  at::set_num_threads(static_cast<int>(options.worker.threads));
  Generator generator(*model, {.max_running = options.worker.max_running,
                               .kv_cache_tokens = options.worker.kv_cache_tokens,
                               .batch_invariant = options.worker.batch_invariant});
  const auto rows = static_cast<std::int64_t>(file->size());
  const std::int64_t count = options.limit > 0 ? std::min(options.limit, rows) : rows;
  return Evaluation(*file, *tokenizer, *scoring, *model, generator, count, options.completions)
      .Run(sampling);
}

void EvalScores::Add(std::int64_t row, const Verdict& verdict) {
  PromptScores& prompt = prompts_[row];
  const bool correct = verdict.outcome == Outcome::kCorrect;
  if (!correct && verdict.outcome != Outcome::kWrong) return;
  ++prompt.successes.scored;
  prompt.successes.correct += correct ? 1 : 0;
  if (verdict.given.empty()) {
    ++prompt.blank;
    return;
  }
  Answer& answer = prompt.answers[verdict.given];
  (correct ? answer.correct : answer.wrong) += 1;
}

Estimate EvalScores::PassAt(std::int64_t k) const {
  std::vector<double> of_prompts;
  for (const auto& [row, prompt] : prompts_) {
    if (prompt.successes.scored >= k) of_prompts.push_back(PassAtK(prompt.successes, k));
  }
  return MeanOver(of_prompts);
}

Estimate EvalScores::MajAt(std::int64_t k) const {
  std::vector<double> of_prompts;
  std::vector<AnswerVotes> votes;
  for (const auto& [row, prompt] : prompts_) {
    if (prompt.successes.scored < k) continue;
    votes.clear();
    for (const auto& [text, answer] : prompt.answers) {
      votes.push_back({answer.correct + answer.wrong, answer.correct > answer.wrong});
    }
    of_prompts.push_back(MajAtK(votes, prompt.blank, k));
  }
  return MeanOver(of_prompts);
}

Estimate EvalScores::Avg() const {
  std::vector<double> of_prompts;
  for (const auto& [row, prompt] : prompts_) {
    const Successes& s = prompt.successes;
    if (s.scored > 0)
      of_prompts.push_back(static_cast<double>(s.correct) / static_cast<double>(s.scored));
  }
  return MeanOver(of_prompts);
}

std::vector<double> EvalScores::ByRow() const {
  if (prompts_.empty()) return {};
  std::vector<double> shares(static_cast<std::size_t>(prompts_.rbegin()->first) + 1,
                             std::numeric_limits<double>::quiet_NaN());
  for (const auto& [row, prompt] : prompts_) {
    const auto& [correct, scored] = prompt.successes;
    if (scored > 0)
      shares[static_cast<std::size_t>(row)] =
          static_cast<double>(correct) / static_cast<double>(scored);
  }
  return shares;
}

std::vector<std::int64_t> PowersUpTo(std::int64_t n) {
  std::vector<std::int64_t> ks;
  for (std::int64_t k = 1; k < n; k *= 2) ks.push_back(k);
  ks.push_back(n);
  return ks;
}

}  // namespace buttress
