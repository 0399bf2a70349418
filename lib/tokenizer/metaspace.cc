#include "lib/tokenizer/metaspace.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "lib/tokenizer/json/json_fields.h"

namespace buttress {

Result<Metaspace> ParseMetaspace(const nlohmann::json& spec, const std::string& path) {
  BUTTRESS_RETURN_IF_ERROR(ExpectMembersAmong(
      spec, path,
      {"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"}));
  Metaspace out;
  BUTTRESS_ASSIGN_OR_RETURN(out.replacement,
                            StringMember(spec, path, "replacement", out.replacement));
  if (out.replacement.empty()) {
    return InvalidArgument(path + ".replacement is empty; one character is expected");
  }
  BUTTRESS_ASSIGN_OR_RETURN(out.split, BoolMember(spec, path, "split", true));
  BUTTRESS_ASSIGN_OR_RETURN(const std::string scheme,
                            StringMember(spec, path, "prepend_scheme", "always"));
  if (scheme == "first") {
    out.prepend = Metaspace::Prepend::kFirst;
  } else if (scheme == "never") {
    out.prepend = Metaspace::Prepend::kNever;
  } else if (scheme != "always") {
    return InvalidArgument(
        fmt::format("{}.prepend_scheme = '{}' is not always, first or never", path, scheme));
  }
  // Files of older versions have this member instead of prepend_scheme.
  BUTTRESS_ASSIGN_OR_RETURN(const bool add, BoolMember(spec, path, "add_prefix_space", true));
  if (!add) out.prepend = Metaspace::Prepend::kNever;
  return out;
}

}  // namespace buttress
