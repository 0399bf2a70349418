#include "rollout_worker/model_commands/sampling_fields.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string_view>

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::string_view, 3> kPrompts = {"token_ids", "text", "messages"};
constexpr std::array<std::string_view, 9> kSampling = {"temperature",  "top_p",          "top_k",
                                                       "max_tokens",   "min_tokens",     "stop",
                                                       "include_stop", "stop_token_ids", "seed"};

template <class List>
bool Has(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

Status Wrong(const std::string& name, const ordered_json& value, const std::string& expected) {
  return InvalidArgument(name + " = " + value.dump() + "; expected " + expected);
}

Status ReadNumber(const std::string& name, const ordered_json& value, double& out) {
  if (!value.is_number()) return Wrong(name, value, "a number");
  out = value.get<double>();
  return OkStatus();
}

// Reads a whole number of at least `least`.
template <class Int>
Status ReadWhole(const std::string& name, const ordered_json& value, std::uint64_t least,
                 Int& out) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<Int>::max());
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() < least ||
      value.get<std::uint64_t>() > kMost) {
    return Wrong(name, value,
                 "a whole number from " + std::to_string(least) + " to " + std::to_string(kMost));
  }
  out = value.get<Int>();
  return OkStatus();
}

Status ReadIds(const std::string& name, const ordered_json& value, std::vector<std::int32_t>& out) {
  if (!value.is_array()) return Wrong(name, value, "a list of token ids");
  out.clear();
  for (const ordered_json& id : value) {
    BUTTRESS_RETURN_IF_ERROR(ReadWhole(name, id, 0, out.emplace_back()));
  }
  return OkStatus();
}

Status ReadTexts(const std::string& name, const ordered_json& value,
                 std::vector<std::string>& out) {
  out.clear();
  for (const ordered_json& text : value.is_array() ? value : ordered_json::array({value})) {
    if (!text.is_string()) return Wrong(name, value, "a text or a list of texts");
    out.push_back(text.get<std::string>());
  }
  return OkStatus();
}

Status ReadBool(const std::string& name, const ordered_json& value, bool& out) {
  if (!value.is_boolean()) return Wrong(name, value, "true or false");
  out = value.get<bool>();
  return OkStatus();
}

Status ReadField(const std::string& name, const ordered_json& value, SamplingParams& out) {
  if (name == "temperature") return ReadNumber(name, value, out.temperature);
  if (name == "top_p") return ReadNumber(name, value, out.top_p);
  if (name == "top_k") return ReadWhole(name, value, 0, out.top_k);
  if (name == "max_tokens") return ReadWhole(name, value, 1, out.max_tokens);
  if (name == "min_tokens") return ReadWhole(name, value, 0, out.min_tokens);
  if (name == "stop") return ReadTexts(name, value, out.stop);
  if (name == "include_stop") return ReadBool(name, value, out.include_stop);
  if (name == "stop_token_ids") return ReadIds(name, value, out.stop_token_ids);
  if (name == "seed") return ReadWhole(name, value, 0, out.seed);
  return OkStatus();
}

}  // namespace

std::string SamplingFieldNames() {
  std::string names;
  for (const std::string_view name : kSampling) {
    if (!names.empty()) names += ", ";
    names += name;
  }
  return names;
}

Status CheckFields(const JsonRow& row) {
  std::string prompt;
  for (const auto& [name, value] : row.fields.items()) {
    if (Has(kPrompts, name)) {
      if (!prompt.empty()) {
        return InvalidArgument("has '" + prompt + "' and '" + name + "'; keep one of them");
      }
      prompt = name;
    } else if (name != "id" && name != "tools" && !Has(kSampling, name)) {
      return InvalidArgument("'" + name +
                             "' is not a field; expected id, one of token_ids, text and messages, "
                             "tools, and of " +
                             SamplingFieldNames());
    }
  }
  if (prompt.empty()) return InvalidArgument("no prompt; add token_ids, text or messages");
  if (prompt != "messages" && row.fields.contains("tools"))
    return InvalidArgument("'tools' next to '" + prompt + "'; a chat template reads messages");
  return OkStatus();
}

Status ReadSamplingFields(const JsonRow& row, SamplingParams& sampling) {
  for (const auto& [name, value] : row.fields.items()) {
    BUTTRESS_RETURN_IF_ERROR(ReadField(name, value, sampling));
  }
  return OkStatus();
}

}  // namespace buttress
