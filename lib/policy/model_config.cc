#include "lib/policy/model_config.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "lib/base/os/file.h"
#include "lib/base/text/bounded_json.h"
#include "lib/policy/config_reader.h"
#include "lib/policy/families/family.h"

namespace buttress {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxConfigBytes = std::int64_t{1} << 24;

Result<json> ReadJsonObject(const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxConfigBytes));
  Result<json> parsed = ParseBoundedJson(text, kMaxConfigBytes);
  if (!parsed.ok()) return DataLoss(path + ": " + parsed.status().message());
  if (!parsed->is_object()) return DataLoss(path + ": not a JSON object");
  return parsed;
}

// Fields that do not change the logits: provenance, tokens, defaults of transformers' generate(),
// its outputs and its caches, and the losses of its own training.
const std::set<std::string_view>& HarmlessFields() {
  static const std::set<std::string_view> fields = {"_attn_implementation_autoset",
                                                    "_commit_hash",
                                                    "_name_or_path",
                                                    "add_cross_attention",
                                                    "attn_implementation",
                                                    "auto_map",
                                                    "bad_words_ids",
                                                    "begin_suppress_tokens",
                                                    "bos_token_id",
                                                    "cache_implementation",
                                                    "chunk_size_feed_forward",
                                                    "cross_attention_hidden_size",
                                                    "decoder_start_token_id",
                                                    "diversity_penalty",
                                                    "do_sample",
                                                    "dtype",
                                                    "early_stopping",
                                                    "encoder_no_repeat_ngram_size",
                                                    "exponential_decay_length_penalty",
                                                    "finetuning_task",
                                                    "forced_bos_token_id",
                                                    "forced_eos_token_id",
                                                    "id2label",
                                                    "is_decoder",
                                                    "is_encoder_decoder",
                                                    "label2id",
                                                    "length_penalty",
                                                    "max_length",
                                                    "min_length",
                                                    "model_type",
                                                    "no_repeat_ngram_size",
                                                    "num_beam_groups",
                                                    "num_beams",
                                                    "num_return_sequences",
                                                    "output_attentions",
                                                    "output_hidden_states",
                                                    "output_scores",
                                                    "prefix",
                                                    "pretraining_tp",
                                                    "problem_type",
                                                    "pruned_heads",
                                                    "remove_invalid_values",
                                                    "repetition_penalty",
                                                    "return_dict",
                                                    "return_dict_in_generate",
                                                    "sep_token_id",
                                                    "suppress_tokens",
                                                    "task_specific_params",
                                                    "temperature",
                                                    "tf_legacy_loss",
                                                    "tie_encoder_decoder",
                                                    "tokenizer_class",
                                                    "top_k",
                                                    "top_p",
                                                    "torch_dtype",
                                                    "torchscript",
                                                    "transformers.js_config",
                                                    "transformers_version",
                                                    "typical_p",
                                                    "unsloth_fixed",
                                                    "unsloth_version",
                                                    "use_bfloat16",
                                                    "use_cache"};
  return fields;
}

const Family* FindFamily(ConfigReader& fields) {
  const json* names = fields.Find("architectures");
  std::string known;
  for (const Family& family : Families()) {
    if (names != nullptr && *names == json::array({family.architecture})) return &family;
    known += (known.empty() ? "" : ", ") + std::string(family.architecture);
  }
  if (names == nullptr) {
    fields.Fail("architectures", "is missing", "a list of one of " + known);
  } else {
    fields.Refuse("architectures", "not supported; expected a list of one of " + known);
  }
  return nullptr;
}

Status CheckTokens(const ModelConfig& config, const std::string& path) {
  for (const std::int32_t id : config.eos_token_ids) {
    if (id >= config.vocab_size) {
      return DataLoss(path + ": eos_token_id = " + std::to_string(id) +
                      " is not below vocab_size = " + std::to_string(config.vocab_size));
    }
  }
  return OkStatus();
}

}  // namespace

Result<ModelConfig> LoadModelConfig(const std::string& folder) {
  const std::string path = JoinPath(folder, "config.json");
  BUTTRESS_ASSIGN_OR_RETURN(const json object, ReadJsonObject(path));
  ConfigReader fields(object, path);
  const Family* family = FindFamily(fields);
  BUTTRESS_RETURN_IF_ERROR(fields.status());
  fields.Require("model_type", std::string(family->model_type));
  if (fields.Find("quantization_config") != nullptr) {
    fields.Refuse("quantization_config",
                  "not supported; expected a checkpoint in float32, bfloat16 or float16");
  }
  ModelConfig config = family->read(fields);
  config.architecture = family->architecture;
  fields.TokenIds("eos_token_id", config.eos_token_ids);
  std::vector<std::int32_t> pad;
  fields.TokenIds("pad_token_id", pad);
  if (!pad.empty()) config.pad_token_id = pad.front();
  fields.RefuseUnread(HarmlessFields(), family->architecture);
  BUTTRESS_RETURN_IF_ERROR(fields.status());

  const std::string generation_path = JoinPath(folder, "generation_config.json");
  const Result<json> generation = ReadJsonObject(generation_path);
  if (generation.ok()) {
    ConfigReader generation_fields(*generation, generation_path);
    generation_fields.TokenIds("eos_token_id", config.eos_token_ids);
    BUTTRESS_RETURN_IF_ERROR(generation_fields.status());
  } else if (generation.status().code() != StatusCode::kNotFound) {
    return generation.status();
  }
  BUTTRESS_RETURN_IF_ERROR(CheckTokens(config, path));
  return config;
}

Status CanDivideExperts(const ModelConfig& model, std::int64_t ranks) {
  constexpr std::int64_t kAlignment = 64;  // of the parts of a unit: kUnitAlignment
  bool some = false;
  for (const BlockSpec& block : model.blocks) {
    const std::int64_t experts = block.experts.count;
    if (experts == 0) continue;
    some = true;
    const std::int64_t values = experts / ranks * 3 * block.D * block.F;
    if (experts % ranks == 0 && values % kAlignment == 0) continue;
    return InvalidArgument(fmt::format(
        "{} ranks cannot divide the {} experts of a block equally, in parts of a multiple of {} "
        "values; take a number of ranks that divides them, or set local.learner.expert_parallel: "
        "false",
        ranks, experts, kAlignment));
  }
  if (some) return OkStatus();
  return InvalidArgument("a model of " + model.architecture +
                         " without experts; set local.learner.expert_parallel: false");
}

}  // namespace buttress
