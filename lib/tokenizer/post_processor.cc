#include "lib/tokenizer/post_processor.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <string>

#include "lib/tokenizer/json/json_fields.h"
#include "lib/tokenizer/json/tokenizer_json.h"

namespace buttress {
namespace {

using nlohmann::json;

// Appends the ids that `special_tokens` gives a special token of the template.
Status AppendIds(const json& piece, const json& special_tokens, const std::string& path,
                 std::vector<std::int32_t>& out) {
  BUTTRESS_RETURN_IF_ERROR(ExpectObject(piece, path));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string name, StringMember(piece, path, "id", ""));
  const json& ids = MemberOrNull(MemberOrNull(special_tokens, name), "ids");
  if (!ids.is_array() || ids.empty()) {
    return InvalidArgument(fmt::format("{}: special_tokens gives '{}' no ids", path, name));
  }
  for (const json& id : ids) {
    BUTTRESS_ASSIGN_OR_RETURN(out.emplace_back(), IdOf(id, path + ".id", kTokenIdEnd - 1));
  }
  return OkStatus();
}

Result<TokenFrame> ParseTemplate(const json& spec, const std::string& path) {
  BUTTRESS_RETURN_IF_ERROR(
      ExpectMembersAmong(spec, path, {"type", "single", "pair", "special_tokens"}));
  const json& pieces = MemberOrNull(spec, "single");
  if (!pieces.is_array()) return InvalidArgument(path + ".single is not a list");
  TokenFrame frame;
  std::size_t texts = 0;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::string piece = fmt::format("{}.single[{}]", path, i);
    if (!pieces[i].is_object()) return InvalidArgument(piece + " is not an object");
    if (pieces[i].contains("Sequence")) {
      ++texts;
      continue;
    }
    BUTTRESS_RETURN_IF_ERROR(
        AppendIds(MemberOrNull(pieces[i], "SpecialToken"), MemberOrNull(spec, "special_tokens"),
                  piece + ".SpecialToken", texts == 0 ? frame.before : frame.after));
  }
  if (texts != 1) {
    return InvalidArgument(
        fmt::format("{}.single has the text {} times; once is supported", path, texts));
  }
  return frame;
}

Result<TokenFrame> ParseOne(const json& spec, const std::string& path) {
  BUTTRESS_RETURN_IF_ERROR(ExpectObject(spec, path));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string type, StringMember(spec, path, "type", ""));
  if (type == "ByteLevel") return TokenFrame();
  if (type == "TemplateProcessing") return ParseTemplate(spec, path);
  return InvalidArgument(fmt::format(
      "{}.type = '{}' is not supported; ByteLevel, TemplateProcessing and a Sequence of them are",
      path, type));
}

}  // namespace

Result<TokenFrame> ParsePostProcessor(const json& spec) {
  const std::string path = "post_processor";
  if (spec.is_null()) return TokenFrame();
  if (MemberOrNull(spec, "type") != "Sequence") return ParseOne(spec, path);
  const json& list = MemberOrNull(spec, "processors");
  if (!list.is_array()) return InvalidArgument(path + ".processors is not a list");
  TokenFrame all;
  for (std::size_t i = 0; i < list.size(); ++i) {
    BUTTRESS_ASSIGN_OR_RETURN(const TokenFrame one,
                              ParseOne(list[i], fmt::format("{}.processors[{}]", path, i)));
    // Each processor works on the result of those before it.
    all.before.insert(all.before.begin(), one.before.begin(), one.before.end());
    all.after.insert(all.after.end(), one.after.begin(), one.after.end());
  }
  return all;
}

}  // namespace buttress
