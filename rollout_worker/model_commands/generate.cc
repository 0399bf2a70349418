#include <torch/types.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>

#include "lib/base/os/shutdown.h"
#include "lib/base/text/random.h"
#include "lib/data/json_rows.h"
#include "lib/data/template_argument_option.h"
#include "lib/data/text_encoder.h"
#include "lib/policy/decode/generator.h"
#include "lib/policy/stop_set.h"
#include "lib/tokenizer/tokenizer.h"
#include "rollout_worker/commands.h"
#include "rollout_worker/model_commands/model_flags.h"
#include "rollout_worker/model_commands/sampling_fields.h"
#include "rollout_worker/scoring/response_text.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

struct GenerateFlags {
  ModelFlags model;
  SamplingParams sampling;
  std::map<std::string, std::string> template_arguments;
  std::int64_t max_running = 64;
  std::int64_t kv_cache_tokens = 262144;
};

// Tokenizer and template, read when the first row has text or stop strings.
class LazyEncoder {
 public:
  LazyEncoder(std::string folder, std::map<std::string, std::string> arguments)
      : folder_(std::move(folder)), arguments_(std::move(arguments)) {}

  Result<std::vector<std::int32_t>> Encode(const JsonRow& row) {
    BUTTRESS_RETURN_IF_ERROR(Load());
    if (!encoder_) {
      BUTTRESS_ASSIGN_OR_RETURN(encoder_, TextEncoder::Create(*tokenizer_, arguments_));
    }
    return encoder_->EncodeRow(row, {});
  }

  Status Load() {
    if (tokenizer_ != nullptr) return OkStatus();
    BUTTRESS_ASSIGN_OR_RETURN(tokenizer_, Tokenizer::Load(folder_));
    return OkStatus();
  }

  // Null if no row had text or stop strings.
  const Tokenizer* tokenizer() const { return tokenizer_.get(); }

 private:
  const std::string folder_;
  const std::map<std::string, std::string> arguments_;  // of the chat template
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<TextEncoder> encoder_;
};

class Generation {
 public:
  Generation(const GenerateFlags& flags, Transformer& model)
      : flags_(flags),
        model_(model),
        encoder_(flags.model.model, flags.template_arguments),
        generator_(model,
                   {.max_running = flags.max_running, .kv_cache_tokens = flags.kv_cache_tokens}) {}

  Status Run() {
    // Queues every row before the first step, so that every run decodes the same batches.
    BUTTRESS_RETURN_IF_ERROR(
        ForEachJsonRow(flags_.model.file, [this](JsonRow row) { return Add(std::move(row)); }));
    while (generator_.running() + generator_.waiting() > 0) {
      if (ShutdownRequested()) return Cancelled("interrupted");
      for (GeneratedSequence& sequence : generator_.Step()) {
        const auto key = static_cast<std::size_t>(sequence.key);
        finished_[key] = std::move(sequence);
      }
      BUTTRESS_RETURN_IF_ERROR(PrintFinished());
    }
    return OkStatus();
  }

 private:
  struct Row {
    ordered_json id;
    SamplingParams sampling;
  };

  Status Add(JsonRow row) {
    BUTTRESS_RETURN_IF_ERROR(CheckFields(row));
    std::vector<std::int32_t> prompt;
    if (row.fields.contains("token_ids")) {
      BUTTRESS_ASSIGN_OR_RETURN(prompt, TokenIdsOf(row, model_.config().vocab_size));
    } else {
      BUTTRESS_ASSIGN_OR_RETURN(prompt, encoder_.Encode(row));
    }
    SamplingParams sampling = flags_.sampling;
    sampling.seed = MixSeed(sampling.seed, rows_.size());
    BUTTRESS_RETURN_IF_ERROR(ReadSamplingFields(row, sampling));
    if (!sampling.stop.empty()) BUTTRESS_RETURN_IF_ERROR(encoder_.Load());
    BUTTRESS_RETURN_IF_ERROR(DecideStops(model_.config(), encoder_.tokenizer(), sampling));
    BUTTRESS_RETURN_IF_ERROR(
        generator_.Add(rows_.size(), std::move(prompt), sampling, encoder_.tokenizer()));
    rows_.push_back({std::move(row.id), std::move(sampling)});
    return OkStatus();
  }

  // Prints the rows that are finished and have no unfinished row before them.
  Status PrintFinished() {
    for (auto it = finished_.find(printed_); it != finished_.end(); it = finished_.find(printed_)) {
      BUTTRESS_RETURN_IF_ERROR(Print(rows_[printed_], it->second));
      finished_.erase(it);
      ++printed_;
    }
    return OkStatus();
  }

  Status Print(const Row& row, const GeneratedSequence& sequence) const {
    const auto& [id, sampling] = row;
    if (sequence.finish_reason == FinishReason::kError) {
      return DataLoss(c10::str("id ", id.dump(),
                               ": the logits are not finite; check the weights in ",
                               flags_.model.model));
    }
    const char* reason = sequence.finish_reason == FinishReason::kStop ? "stop" : "length";
    std::optional<std::string> text;
    if (const Tokenizer* tokenizer = encoder_.tokenizer(); tokenizer != nullptr) {
      BUTTRESS_ASSIGN_OR_RETURN(
          text, ResponseText(*tokenizer, sequence.token_ids, sequence.finish_reason, sampling));
    }
    if (flags_.model.json) {
      ordered_json out{{"id", id},
                       {"token_ids", sequence.token_ids},
                       {"logprobs", sequence.logprobs},
                       {"stop_reason", reason}};
      if (text) out["text"] = *text;
      std::printf("%s\n", out.dump().c_str());
    } else {
      const ordered_json shown = text ? ordered_json(*text) : ordered_json(sequence.token_ids);
      std::printf("%s\t%s\t%zu\t%s\n", IdText(id).c_str(), reason, sequence.token_ids.size(),
                  shown.dump().c_str());
    }
    return OkStatus();
  }

  const GenerateFlags& flags_;
  Transformer& model_;
  LazyEncoder encoder_;
  Generator generator_;
  std::vector<Row> rows_;  // in order; an index is a key of the generator
  std::map<std::size_t, GeneratedSequence> finished_;
  std::size_t printed_ = 0;
};

void AddFlags(CLI::App& app, GenerateFlags& flags) {
  flags.model.AddTo(app,
                    "{\"id\", \"token_ids\"}, {\"id\", \"text\"} or {\"id\", \"messages\", "
                    "\"tools\"}, with sampling fields that override the flags: " +
                        SamplingFieldNames(),
                    "the id, the stop reason, the number of tokens and the text or ids");
  app.add_option("--temperature", flags.sampling.temperature, "0 = greedy")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--top-p", flags.sampling.top_p, "nucleus mass, 1 = off")->capture_default_str();
  app.add_option("--top-k", flags.sampling.top_k, "most probable tokens kept, 0 = off")
      ->capture_default_str();
  app.add_option("--max-tokens", flags.sampling.max_tokens, "tokens of a completion at most")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", flags.sampling.seed,
                 "seed from which each row gets its own; a row's own seed is used as it is")
      ->capture_default_str();
  AddTemplateArgument(app, flags.template_arguments);
  app.add_option("--max-running", flags.max_running, "rows decoded together at most")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--kv-cache-tokens", flags.kv_cache_tokens, "bound of the key-value cache")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
}

}  // namespace

int RunGenerate(int argc, char** argv) {
  CLI::App app("Completions of prompts by a model", "generate");
  GenerateFlags flags;
  flags.sampling.temperature = 0;
  flags.sampling.seed = 1;
  AddFlags(app, flags);
  return RunCommand(app, argc, argv, [&]() -> Status {
    BUTTRESS_ASSIGN_OR_RETURN(const auto model, flags.model.Load());
    return Generation(flags, *model).Run();
  });
}

}  // namespace buttress
