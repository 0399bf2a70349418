#include "lib/tokenizer/normalizer.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "lib/base/text/unicode.h"
#include "lib/tokenizer/json/json_fields.h"
#include "lib/tokenizer/pre_tokenizer.h"

namespace buttress {

using nlohmann::json;

Status Normalizer::Add(const json& spec, const std::string& path) {
  BUTTRESS_RETURN_IF_ERROR(ExpectObject(spec, path));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string type, StringMember(spec, path, "type", ""));
  Step step;
  if (type == "Prepend") {
    BUTTRESS_RETURN_IF_ERROR(ExpectMembersAmong(spec, path, {"type", "prepend"}));
    BUTTRESS_ASSIGN_OR_RETURN(step.text, StringMember(spec, path, "prepend", ""));
  } else if (type == "Replace") {
    BUTTRESS_RETURN_IF_ERROR(ExpectMembersAmong(spec, path, {"type", "pattern", "content"}));
    BUTTRESS_ASSIGN_OR_RETURN(step.pattern, PatternMember(spec, path));
    BUTTRESS_ASSIGN_OR_RETURN(step.text, StringMember(spec, path, "content", ""));
  } else if (type != "NFC") {
    return InvalidArgument(fmt::format(
        "{}.type = '{}' is not supported; NFC, Prepend, Replace and a Sequence of them are", path,
        type));
  }
  steps_.push_back(std::move(step));
  return OkStatus();
}

Result<Normalizer> Normalizer::FromJson(const json& spec) {
  const std::string path = "normalizer";
  Normalizer out;
  if (spec.is_null()) return out;
  if (MemberOrNull(spec, "type") != "Sequence") {
    BUTTRESS_RETURN_IF_ERROR(out.Add(spec, path));
    return out;
  }
  const json& list = MemberOrNull(spec, "normalizers");
  if (!list.is_array()) return InvalidArgument(path + ".normalizers is not a list");
  for (std::size_t i = 0; i < list.size(); ++i)
    BUTTRESS_RETURN_IF_ERROR(out.Add(list[i], fmt::format("{}.normalizers[{}]", path, i)));
  return out;
}

Result<std::string> Normalizer::Normalize(std::string_view text) const {
  std::string out(text);
  for (const Step& step : steps_) {
    if (step.pattern) {
      BUTTRESS_ASSIGN_OR_RETURN(out, step.pattern->ReplaceAll(out, *step.text));
    } else if (!step.text) {
      out = NormalizeNfc(out);
    } else if (!out.empty()) {
      out.insert(0, *step.text);
    }
  }
  return out;
}

}  // namespace buttress
