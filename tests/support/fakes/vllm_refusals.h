// Why vLLM refuses the body of POST /v1/completions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace buttress {

inline constexpr std::int64_t kVllmVocabulary = 256;

// The fields of vLLM 0.26 that a worker may send.
inline constexpr const char* kVllmFields[] = {"model",
                                              "prompt",
                                              "n",
                                              "stream",
                                              "stream_options",
                                              "max_tokens",
                                              "min_tokens",
                                              "temperature",
                                              "top_p",
                                              "top_k",
                                              "min_p",
                                              "repetition_penalty",
                                              "presence_penalty",
                                              "frequency_penalty",
                                              "seed",
                                              "stop",
                                              "include_stop_str_in_output",
                                              "stop_token_ids",
                                              "ignore_eos",
                                              "logprobs",
                                              "return_token_ids",
                                              "return_tokens_as_token_ids",
                                              "cache_salt"};

// Returns the message of the refusal; empty for a body that vLLM takes. A field that vLLM does not
// know is refused too, because vLLM would ignore it and sample differently. `stream_interval`:
// whether it knows that one, which newer ones do.
inline std::string VllmRefusal(const nlohmann::json& body, std::int64_t max_model_len,
                               bool stream_interval) {
  for (const auto& [name, value] : body.items()) {
    if (std::ranges::find(kVllmFields, name) == std::end(kVllmFields) &&
        !(stream_interval && name == "stream_interval"))
      return "unknown field " + name;
  }
  const nlohmann::json& prompt = body["prompt"];
  if (!prompt.is_array() || prompt.empty()) return "prompt: Input should be a valid list";
  for (const nlohmann::json& token : prompt) {
    if (!token.is_number_integer() || token < 0 || token >= kVllmVocabulary)
      return "Token id " + token.dump() + " is out of vocabulary";
  }
  const auto max_tokens = body["max_tokens"].get<std::int64_t>();
  const auto min_tokens = body["min_tokens"].get<std::int64_t>();
  if (max_tokens < 1) return "max_tokens must be at least 1";
  if (static_cast<std::int64_t>(prompt.size()) + max_tokens > max_model_len)
    return "This model's maximum context length is " + std::to_string(max_model_len);
  if (min_tokens < 0 || min_tokens > max_tokens) return "min_tokens must be at most max_tokens";
  const auto temperature = body["temperature"].get<double>();
  if (!(temperature >= 0 && temperature <= 2)) return "temperature must be in [0, 2]";
  const auto top_p = body["top_p"].get<double>();
  if (!(top_p > 0 && top_p <= 1)) return "top_p must be in (0, 1]";
  if (body["top_k"].get<std::int64_t>() < -1) return "top_k must be -1, 0 or positive";
  if (body["stop"].size() > 4) return "at most 4 stop strings";
  for (const nlohmann::json& stop : body["stop"]) {
    if (stop.get<std::string>().empty()) return "stop cannot contain an empty string";
  }
  if (body.contains("stream_options") && body["stream"] != true)
    return "Stream options can only be defined when stream=True";
  return body["cache_salt"] == "" ? "cache_salt must be a non-empty string" : "";
}

}  // namespace buttress
