#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/tokenizer/regex.h"

#include <absl/strings/ascii.h>
#include <fmt/core.h>
#include <pcre2.h>

#include <algorithm>
#include <cstdint>

#include "lib/base/report/check.h"
#include "lib/base/text/unicode.h"
#include "lib/tokenizer/newer_code_points.h"

namespace buttress {
namespace {

constexpr std::size_t kPatternBytesMax = 65536;
constexpr std::uint32_t kStepsMin = 1'000'000;
constexpr std::uint32_t kStepsPerByte = 16;  // the patterns of Qwen and GPT-2 take fewer than 3
constexpr std::uint32_t kMatchStepsMax = 0xFFFFFFFF;
constexpr std::uint32_t kMatchHeapKib = 64 * 1024;

// The property White_Space, which is Oniguruma's \s. PCRE2's \s includes U+180E as well.
constexpr std::string_view kWhiteSpace = R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a})"
                                         R"(\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

// Letters with the same meaning after a backslash in both dialects; p, P and x only with braces.
constexpr std::string_view kSharedEscapes = "dDrntf";
constexpr std::string_view kSharedBracedEscapes = "pPx";
constexpr std::string_view kSharedGroups[] = {"(?:", "(?i:", "(?=", "(?!", "(?<=", "(?<!", "(?>"};

// Translates a pattern of Oniguruma into PCRE2's dialect.
class OnigurumaTranslator {
 public:
  explicit OnigurumaTranslator(std::string_view pattern) : pattern_(pattern) {}

  Result<std::string> Translate() {
    while (at_ < pattern_.size()) {
      const std::string_view rest = pattern_.substr(at_);
      BUTTRESS_RETURN_IF_ERROR(rest.front() == '\\' ? Escape(rest)
                               : in_class_          ? InClass(rest)
                                                    : Outside(rest));
    }
    return std::move(out_);
  }

 private:
  Status Escape(std::string_view rest) {
    const char letter = rest.size() > 1 ? rest[1] : '\0';
    if (letter == 's' || (letter == 'S' && !in_class_)) {
      if (!in_class_) out_ += letter == 'S' ? "[^" : "[";
      out_ += kWhiteSpace;
      if (!in_class_) out_ += ']';
      at_ += 2;
      return OkStatus();
    }
    const bool braced = rest.size() > 2 && rest[2] == '{' &&
                        kSharedBracedEscapes.find(letter) != std::string_view::npos;
    const std::size_t end = braced ? rest.find('}') : std::size_t{1};
    if (end >= rest.size()) return Refuse(rest);
    if (braced && (letter == 'p' || (letter == 'P' && !in_class_))) {
      const std::string newer = NewerCodePoints(rest.substr(3, end - 3));
      if (!newer.empty()) return Property(rest.substr(2, end - 1), letter == 'P', newer);
    }
    if (!braced && absl::ascii_isalnum(letter) &&
        kSharedEscapes.find(letter) == std::string_view::npos) {
      return Refuse(rest);
    }
    Copy(rest.substr(0, end + 1));
    return OkStatus();
  }

  // Writes \p or \P of `name`, which has its braces, with the code points that PCRE2 lacks.
  Status Property(std::string_view name, bool negated, const std::string& newer) {
    if (!in_class_) out_ += negated ? "[^" : "[";
    out_.append("\\p").append(name).append(newer);
    if (!in_class_) out_ += ']';
    at_ += 2 + name.size();
    return OkStatus();
  }

  Status InClass(std::string_view rest) {
    if (rest.front() == '[' || rest.starts_with("&&")) return Refuse(rest);
    if (rest.front() == ']') in_class_ = false;
    Copy(rest.substr(0, 1));
    return OkStatus();
  }

  Status Outside(std::string_view rest) {
    for (const std::string_view construct : {"{,", "}+", "(*", "[]", "[^]"}) {
      if (rest.starts_with(construct)) return Refuse(rest);
    }
    if (rest.starts_with("(?") &&
        std::none_of(std::begin(kSharedGroups), std::end(kSharedGroups),
                     [&](std::string_view group) { return rest.starts_with(group); })) {
      return Refuse(rest);
    }
    if (rest.front() == '[') in_class_ = true;
    Copy(rest.substr(0, 1));
    return OkStatus();
  }

  void Copy(std::string_view part) {
    out_ += part;
    at_ += part.size();
  }

  Status Refuse(std::string_view rest) const {
    return InvalidArgument(
        fmt::format("pattern {}: '{}' at byte {} is not supported, since PCRE2 may read it "
                    "otherwise than Oniguruma",
                    pattern_, rest.substr(0, 3), at_));
  }

  std::string_view pattern_;
  std::size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

struct MatchState {
  explicit MatchState(const pcre2_code* code, std::size_t text_bytes)
      : data(pcre2_match_data_create_from_pattern(code, nullptr)),
        context(pcre2_match_context_create(nullptr)) {
    BUTTRESS_CHECK(data != nullptr && context != nullptr, "out of memory");
    const std::uint64_t steps = kStepsMin + std::uint64_t{kStepsPerByte} * text_bytes;
    pcre2_set_match_limit(
        context, static_cast<std::uint32_t>(std::min<std::uint64_t>(steps, kMatchStepsMax)));
    pcre2_set_heap_limit(context, kMatchHeapKib);
  }

  ~MatchState() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }

  MatchState(const MatchState&) = delete;
  MatchState& operator=(const MatchState&) = delete;

  pcre2_match_data* data;
  pcre2_match_context* context;
};

// Returns what pcre2_match returns. Compiled code counts steps in its own way and has a small
// stack, so that only the interpreter decides that a match takes too much.
int MatchAt(const pcre2_code* code, std::string_view text, std::size_t from,
            const MatchState& state) {
  const auto match = [&](std::uint32_t options) {
    // Without NO_UTF_CHECK each call would validate the rest of the text again.
    return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                       PCRE2_NO_UTF_CHECK | options, state.data, state.context);
  };
  const int found = match(0);
  const bool gave_up = found < 0 && found != PCRE2_ERROR_NOMATCH;
  return gave_up ? match(PCRE2_NO_JIT) : found;
}

}  // namespace

void Regex::CodeDeleter::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

Result<Regex> Regex::CompilePcre2(const std::string& pattern) {
  if (pattern.size() > kPatternBytesMax) {
    return InvalidArgument(fmt::format("pattern of {} bytes; at most {} are supported",
                                       pattern.size(), kPatternBytesMax));
  }
  int error = 0;
  PCRE2_SIZE error_at = 0;
  // Oniguruma's ^ and $ match at the ends of lines.
  pcre2_code* code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                    &error_at, nullptr);
  if (code == nullptr) {
    PCRE2_UCHAR text[256] = {};
    pcre2_get_error_message(error, text, sizeof(text));
    return InvalidArgument("pattern " + pattern + ": " + reinterpret_cast<const char*>(text) +
                           " at byte " + std::to_string(error_at));
  }
  // Where the system forbids code that is made at run time, PCRE2 interprets the pattern.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  return Regex(code);
}

Result<Regex> Regex::Compile(std::string_view pattern) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string translated, OnigurumaTranslator(pattern).Translate());
  return CompilePcre2(translated);
}

Result<Regex> Regex::Literal(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (static_cast<std::uint8_t>(c) < 0x80 && !absl::ascii_isalnum(c)) pattern += '\\';
    pattern += c;
  }
  return CompilePcre2(pattern);
}

Status Regex::FindAll(std::string_view text, std::vector<TextRange>& matches) const {
  matches.clear();
  const MatchState state(code_.get(), text.size());
  std::size_t from = 0;
  while (from <= text.size()) {
    const int found = MatchAt(code_.get(), text, from, state);
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0) {
      return ResourceExhausted(
          fmt::format("the pre-tokenizer's pattern gave up near byte {} of {} (PCRE2 error {}); "
                      "the pattern backtracks too much on this text",
                      from, text.size(), found));
    }
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(state.data);
    const TextRange match{offsets[0], offsets[1]};
    if (match.end < match.begin) {
      return InvalidArgument("the pre-tokenizer's pattern moves its match's start behind its end");
    }
    if (match.begin == match.end && !matches.empty() && matches.back().end == match.end) {
      from += from < text.size() ? CodePointAt(text, from).length : 1;
      continue;
    }
    matches.push_back(match);
    from = match.end;
  }
  return OkStatus();
}

Result<std::string> Regex::ReplaceAll(std::string_view text, std::string_view content) const {
  std::vector<TextRange> matches;
  BUTTRESS_RETURN_IF_ERROR(FindAll(text, matches));
  std::string out;
  std::size_t done = 0;
  for (const TextRange& match : matches) {
    out.append(text.substr(done, match.begin - done)).append(content);
    done = match.end;
  }
  out.append(text.substr(done));
  return out;
}

}  // namespace buttress
