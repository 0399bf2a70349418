#include "lib/policy/logprobs.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <vector>

#include "lib/base/os/shutdown.h"
#include "lib/data/json_rows.h"
#include "lib/policy/transformer.h"
#include "rollout_worker/commands.h"
#include "rollout_worker/model_commands/model_flags.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

struct Row {
  ordered_json id;
  std::int64_t line = 0;
};

struct Batching {
  std::int64_t tokens = 16384;  // of one forward pass, or one row
  double temperature = 1;
};

struct Rows {
  std::vector<Row> rows;
  std::vector<std::vector<std::int32_t>> sequences;
};

Result<Rows> ReadRows(const std::string& path, const ModelConfig& config) {
  Rows out;
  BUTTRESS_RETURN_IF_ERROR(ForEachJsonRow(path, [&](JsonRow row) -> Status {
    BUTTRESS_ASSIGN_OR_RETURN(auto tokens, TokenIdsOf(row, config.vocab_size));
    if (static_cast<std::int64_t>(tokens.size()) > config.max_positions) {
      return InvalidArgument(c10::str("token_ids has ", tokens.size(), " ids; the model has ",
                                      config.max_positions, " positions; shorten the row"));
    }
    out.sequences.push_back(std::move(tokens));
    out.rows.push_back({std::move(row.id), row.line});
    return OkStatus();
  }));
  return out;
}

void Print(const Row& row, const std::vector<float>& logprobs, bool as_json) {
  if (as_json) {
    std::printf("%s\n", ordered_json{{"id", row.id}, {"logprobs", logprobs}}.dump().c_str());
    return;
  }
  double sum = 0;
  for (const float logprob : logprobs) sum += logprob;
  std::printf("%s\t%zu\t%.6f\n", IdText(row.id).c_str(), logprobs.size(), sum);
}

// Returns for each sequence the log-probs (nats) of its tokens after the first, each given those
// before it, under softmax(logits / temperature). Packs the sequences into one forward pass.
// LibTorch's exceptions pass through. REQUIRES: no sequence is empty or longer than the model's
// positions, and temperature > 0.
std::vector<std::vector<float>> SequenceLogprobs(
    Transformer& model, std::span<const std::vector<std::int32_t>> sequences, double temperature) {
  const c10::InferenceMode inference;
  std::vector<std::int64_t> tokens, lengths, predicting;
  for (const std::vector<std::int32_t>& sequence : sequences) {
    const auto begin = static_cast<std::int64_t>(tokens.size());
    const auto length = static_cast<std::int64_t>(sequence.size());
    for (std::int64_t t = 0; t + 1 < length; ++t) predicting.push_back(begin + t);
    tokens.insert(tokens.end(), sequence.begin(), sequence.end());
    lengths.push_back(length);
  }
  const at::Tensor tokens_N = torch::tensor(tokens, torch::kInt64);
  const at::Tensor rows = torch::tensor(predicting, torch::kInt64);
  const at::Tensor hidden = model.Hidden(tokens_N, lengths);
  const at::Tensor logprobs = ScoreTokens(model, hidden.index_select(0, rows.to(hidden.device())),
                                          tokens_N.index_select(0, rows + 1), {temperature})
                                  .logprobs_M.cpu();
  const float* next = logprobs.const_data_ptr<float>();
  std::vector<std::vector<float>> out;
  for (const std::int64_t length : lengths) {
    out.emplace_back(next, next + length - 1);
    next += length - 1;
  }
  return out;
}

// Prints the rows in their order, as many as fit into a batch at a time.
Status PrintAll(Transformer& model, const ModelFlags& flags, const Batching& batching) {
  BUTTRESS_ASSIGN_OR_RETURN(const Rows all, ReadRows(flags.file, model.config()));
  for (std::size_t first = 0, end = 0; first < all.rows.size(); first = end) {
    if (ShutdownRequested()) return Cancelled("interrupted");
    std::int64_t tokens = 0;
    while (end < all.rows.size()) {
      tokens += static_cast<std::int64_t>(all.sequences[end].size());
      if (end > first && tokens > batching.tokens) break;
      ++end;
    }
    const auto logprobs = SequenceLogprobs(
        model, std::span(all.sequences).subspan(first, end - first), batching.temperature);
    for (std::size_t i = first; i < end; ++i) {
      const std::vector<float>& of_row = logprobs[i - first];
      if (!std::all_of(of_row.begin(), of_row.end(), [](float x) { return std::isfinite(x); })) {
        return DataLoss(c10::str(flags.file, ":", all.rows[i].line,
                                 ": a log-prob is not finite; check the weights in ", flags.model));
      }
      Print(all.rows[i], of_row, flags.json);
    }
  }
  return OkStatus();
}

}  // namespace

int RunLogprobs(int argc, char** argv) {
  CLI::App app("Log-probs of the tokens of sequences under a model", "logprobs");
  ModelFlags flags;
  flags.AddTo(app, "{\"id\", \"token_ids\"}",
              "the id, the number of tokens after the first and the sum of their log-probs");
  Batching batching;
  app.add_option("--temperature", batching.temperature, "by which the logits are divided")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--batch-tokens", batching.tokens, "tokens of one forward pass, or one row")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  return RunCommand(app, argc, argv, [&]() -> Status {
    BUTTRESS_ASSIGN_OR_RETURN(const auto model, flags.Load());
    return PrintAll(*model, flags, batching);
  });
}

}  // namespace buttress
