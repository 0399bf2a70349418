#include "lib/policy/model_config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>

#include "lib/base/file.h"

namespace buttress {
namespace {

using nlohmann::json;

constexpr std::int64_t kMaxConfigBytes = std::int64_t{1} << 24;
constexpr std::int64_t kMaxDimension = std::int64_t{1} << 24;

Result<json> ReadJsonObject(const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxConfigBytes));
  json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return DataLoss(path + ": not a JSON object");
  return parsed;
}

// Reads the fields of one config.json, and keeps the first error.
class FieldReader {
 public:
  FieldReader(const json& object, std::string path) : object_(object), path_(std::move(path)) {}

  // Returns null for a missing field and for JSON's null, as transformers does.
  const json* Find(std::string_view name) const {
    const auto it = object_.find(name);
    return it == object_.end() || it->is_null() ? nullptr : &*it;
  }

  std::int64_t Dimension(std::string_view name) {
    const json* field = Find(name);
    if (field == nullptr) return Fail(name, "is missing", "an integer above 0");
    if (!field->is_number_integer() || field->get<std::int64_t>() <= 0 ||
        field->get<std::int64_t>() > kMaxDimension) {
      return Fail(name, "= " + field->dump(),
                  "an integer above 0 and at most " + std::to_string(kMaxDimension));
    }
    return field->get<std::int64_t>();
  }

  double PositiveNumber(std::string_view name, double fallback) {
    const json* field = Find(name);
    if (field == nullptr) return fallback;
    if (!field->is_number() || !(field->get<double>() > 0) ||
        !std::isfinite(field->get<double>())) {
      Fail(name, "= " + field->dump(), "a number above 0");
      return fallback;
    }
    return field->get<double>();
  }

  bool Flag(std::string_view name, bool fallback) {
    const json* field = Find(name);
    if (field == nullptr) return fallback;
    if (!field->is_boolean()) {
      Fail(name, "= " + field->dump(), "true or false");
      return fallback;
    }
    return field->get<bool>();
  }

  // Adds the token id, or the list of them, to `ids`, without duplicates.
  void TokenIds(std::string_view name, std::vector<std::int32_t>& ids) {
    const json* field = Find(name);
    if (field == nullptr) return;
    const json list = field->is_array() ? *field : json::array({*field});
    for (const json& id : list) {
      if (!id.is_number_integer() || id.get<std::int64_t>() < 0 ||
          id.get<std::int64_t>() > kMaxDimension) {
        Fail(name, "= " + field->dump(), "a token id or a list of them");
        return;
      }
      const auto value = id.get<std::int32_t>();
      if (std::find(ids.begin(), ids.end(), value) == ids.end()) ids.push_back(value);
    }
  }

  // Records that the value of a field is not implemented.
  void Refuse(std::string_view name, std::string_view meaning) {
    if (status_.ok()) {
      status_ = InvalidArgument(path_ + ": " + std::string(name) + " = " + Find(name)->dump() +
                                ": " + std::string(meaning));
    }
  }

  // Records a malformed field. Returns 1, a value with which reading can continue.
  std::int64_t Fail(std::string_view name, const std::string& what, const std::string& expected) {
    if (status_.ok())
      status_ = DataLoss(path_ + ": " + std::string(name) + " " + what + "; expected " + expected);
    return 1;
  }

  const Status& status() const { return status_; }

 private:
  const json& object_;
  std::string path_;
  Status status_;
};

void ReadArchitecture(FieldReader& fields, ModelConfig& config) {
  const json* names = fields.Find("architectures");
  if (names == nullptr || !names->is_array() || names->size() != 1 || !names->front().is_string()) {
    fields.Fail("architectures", names == nullptr ? "is missing" : "= " + names->dump(),
                "a list of one name");
    return;
  }
  config.architecture = names->front().get<std::string>();
  if (config.architecture != "Qwen2ForCausalLM")
    fields.Refuse("architectures", "not implemented; Qwen2ForCausalLM is");
}

// Reads rope_theta from the top level (transformers 4) or from rope_parameters (transformers 5).
// Scaled variants are not implemented.
void ReadRope(FieldReader& fields, ModelConfig& config) {
  config.rope_theta = fields.PositiveNumber("rope_theta", config.rope_theta);
  for (const std::string_view name : {"rope_parameters", "rope_scaling"}) {
    const json* rope = fields.Find(name);
    if (rope == nullptr) continue;
    if (!rope->is_object()) {
      fields.Fail(name, "= " + rope->dump(), "an object");
      return;
    }
    for (const auto& [key, value] : rope->items()) {
      const bool is_default = (key == "rope_type" || key == "type") && value == "default";
      if (key == "rope_theta" && value.is_number() && value.get<double>() > 0) {
        config.rope_theta = value.get<double>();
      } else if (!is_default) {
        fields.Refuse(name, "not implemented; only rope_type 'default' with a rope_theta is");
        return;
      }
    }
  }
}

// Refuses the variants of Qwen2 that Transformer::Hidden does not compute.
void RefuseVariants(FieldReader& fields) {
  if (fields.Flag("use_sliding_window", false))
    fields.Refuse("use_sliding_window", "not implemented; full attention is");
  if (const json* types = fields.Find("layer_types"); types != nullptr) {
    const bool full =
        types->is_array() && std::all_of(types->begin(), types->end(),
                                         [](const json& type) { return type == "full_attention"; });
    if (!full) fields.Refuse("layer_types", "not implemented; full_attention is");
  }
  if (const json* act = fields.Find("hidden_act"); act != nullptr && *act != "silu") {
    fields.Refuse("hidden_act", "not implemented; silu is");
  }
  if (fields.Find("quantization_config") != nullptr) {
    fields.Refuse("quantization_config", "not implemented; float32 and bfloat16 checkpoints are");
  }
}

BlockSpec ReadBlock(FieldReader& fields) {
  BlockSpec block;
  AttentionSpec& attention = block.attention;
  block.D = fields.Dimension("hidden_size");
  block.F = fields.Dimension("intermediate_size");
  attention.H = fields.Dimension("num_attention_heads");
  attention.K = fields.Find("num_key_value_heads") == nullptr
                    ? attention.H
                    : fields.Dimension("num_key_value_heads");
  if (fields.Find("head_dim") != nullptr) {
    attention.C = fields.Dimension("head_dim");
  } else if (block.D % attention.H != 0) {
    fields.Fail("num_attention_heads", "= " + std::to_string(attention.H),
                "a divisor of hidden_size");
  } else {
    attention.C = block.D / attention.H;
  }
  if (attention.H % attention.K != 0) {
    fields.Fail("num_key_value_heads", "= " + std::to_string(attention.K),
                "a divisor of num_attention_heads");
  }
  if (attention.C % 2 != 0)
    fields.Fail("head_dim", "= " + std::to_string(attention.C), "an even number");
  block.qkv_bias = true;
  block.norm_eps = fields.PositiveNumber("rms_norm_eps", block.norm_eps);
  return block;
}

}  // namespace

Result<ModelConfig> LoadModelConfig(const std::string& folder) {
  const std::string path = JoinPath(folder, "config.json");
  BUTTRESS_ASSIGN_OR_RETURN(const json object, ReadJsonObject(path));
  FieldReader fields(object, path);
  ModelConfig config;
  ReadArchitecture(fields, config);
  BUTTRESS_RETURN_IF_ERROR(fields.status());
  RefuseVariants(fields);
  const BlockSpec block = ReadBlock(fields);
  config.vocab_size = fields.Dimension("vocab_size");
  config.hidden_size = block.D;
  config.norm_eps = block.norm_eps;
  config.max_positions = fields.Dimension("max_position_embeddings");
  const std::int64_t layers = fields.Dimension("num_hidden_layers");
  ReadRope(fields, config);
  config.tie_word_embeddings = fields.Flag("tie_word_embeddings", false);
  config.initializer_range = fields.PositiveNumber("initializer_range", config.initializer_range);
  fields.TokenIds("eos_token_id", config.eos_token_ids);
  std::vector<std::int32_t> pad;
  fields.TokenIds("pad_token_id", pad);
  if (!pad.empty()) config.pad_token_id = pad.front();
  BUTTRESS_RETURN_IF_ERROR(fields.status());
  config.blocks.assign(static_cast<std::size_t>(layers), block);

  const std::string generation_path = JoinPath(folder, "generation_config.json");
  const Result<json> generation = ReadJsonObject(generation_path);
  if (generation.ok()) {
    FieldReader generation_fields(*generation, generation_path);
    generation_fields.TokenIds("eos_token_id", config.eos_token_ids);
    BUTTRESS_RETURN_IF_ERROR(generation_fields.status());
  } else if (generation.status().code() != StatusCode::kNotFound) {
    return generation.status();
  }
  for (const std::int32_t id : config.eos_token_ids) {
    if (id >= config.vocab_size) {
      return DataLoss(path + ": eos_token_id = " + std::to_string(id) +
                      " is not below vocab_size = " + std::to_string(config.vocab_size));
    }
  }
  return config;
}

}  // namespace buttress
