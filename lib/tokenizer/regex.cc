#define PCRE2_CODE_UNIT_WIDTH 8
#include "lib/tokenizer/regex.h"

#include <absl/strings/ascii.h>
#include <fmt/core.h>
#include <pcre2.h>

#include <algorithm>
#include <cstdint>

#include "lib/base/report/check.h"
#include "lib/base/text/unicode.h"

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

// General categories of the code points that Unicode 15 and 16 added. PCRE2 10.42 knows Unicode 14,
// the Oniguruma of Hugging Face's tokenizers Unicode 16.
struct NewerRanges {
  std::string_view category;
  std::string_view ranges;  // the inside of a character class
};

constexpr NewerRanges kNewerRanges[] = {
    {"Lu", R"(\x{1c89}\x{a7cb}-\x{a7cc}\x{a7da}\x{a7dc}\x{10d50}-\x{10d65})"},
    {"Ll", R"(\x{1c8a}\x{a7cd}\x{a7db}\x{10d70}-\x{10d85}\x{1df25}-\x{1df2a})"},
    {"Lm",
     R"(\x{10d4e}\x{10d6f}\x{16d40}-\x{16d42}\x{16d6b}-\x{16d6c}\x{1e030}-\x{1e06d}\x{1e4eb})"},
    {"Lo", R"(\x{105c0}-\x{105f3}\x{10d4a}-\x{10d4d}\x{10d4f}\x{10ec2}-\x{10ec4})"
           R"(\x{1123f}-\x{11240}\x{11380}-\x{11389}\x{1138b}\x{1138e}\x{11390}-\x{113b5}\x{113b7})"
           R"(\x{113d1}\x{113d3}\x{11bc0}-\x{11be0}\x{11f02}\x{11f04}-\x{11f10}\x{11f12}-\x{11f33})"
           R"(\x{1342f}\x{13441}-\x{13446}\x{13460}-\x{143fa}\x{16100}-\x{1611d})"
           R"(\x{16d43}-\x{16d6a}\x{18cff}\x{1b132}\x{1b155}\x{1e4d0}-\x{1e4ea}\x{1e5d0}-\x{1e5ed})"
           R"(\x{1e5f0}\x{2b739}\x{2ebf0}-\x{2ee5d}\x{31350}-\x{323af})"},
    {"Mn", R"(\x{897}\x{ece}\x{10d69}-\x{10d6d}\x{10efc}-\x{10eff}\x{11241}\x{113bb}-\x{113c0})"
           R"(\x{113ce}\x{113d0}\x{113d2}\x{113e1}-\x{113e2}\x{11f00}-\x{11f01}\x{11f36}-\x{11f3a})"
           R"(\x{11f40}\x{11f42}\x{11f5a}\x{13440}\x{13447}-\x{13455}\x{1611e}-\x{16129})"
           R"(\x{1612d}-\x{1612f}\x{1e08f}\x{1e4ec}-\x{1e4ef}\x{1e5ee}-\x{1e5ef})"},
    {"Mc", R"(\x{cf3}\x{113b8}-\x{113ba}\x{113c2}\x{113c5}\x{113c7}-\x{113ca}\x{113cc}-\x{113cd})"
           R"(\x{113cf}\x{1171e}\x{11f03}\x{11f34}-\x{11f35}\x{11f3e}-\x{11f3f}\x{11f41})"
           R"(\x{1612a}-\x{1612c})"},
    {"Nd", R"(\x{10d40}-\x{10d49}\x{116d0}-\x{116e3}\x{11bf0}-\x{11bf9}\x{11f50}-\x{11f59})"
           R"(\x{16130}-\x{16139}\x{16d70}-\x{16d79}\x{1ccf0}-\x{1ccf9}\x{1e4f0}-\x{1e4f9})"
           R"(\x{1e5f1}-\x{1e5fa})"},
    {"No", R"(\x{1d2c0}-\x{1d2d3})"},
    {"Pd", R"(\x{10d6e})"},
    {"Po", R"(\x{1b4e}-\x{1b4f}\x{1b7f}\x{113d4}-\x{113d5}\x{113d7}-\x{113d8}\x{11b00}-\x{11b09})"
           R"(\x{11be1}\x{11f43}-\x{11f4f}\x{16d6d}-\x{16d6f}\x{1e5ff})"},
    {"Sm", R"(\x{10d8e}-\x{10d8f})"},
    {"So", R"(\x{2427}-\x{2429}\x{2ffc}-\x{2fff}\x{31e4}-\x{31e5}\x{31ef}\x{1cc00}-\x{1ccef})"
           R"(\x{1cd00}-\x{1ceb3}\x{1f6dc}\x{1f774}-\x{1f776}\x{1f77b}-\x{1f77f}\x{1f7d9})"
           R"(\x{1f8b2}-\x{1f8bb}\x{1f8c0}-\x{1f8c1}\x{1fa75}-\x{1fa77}\x{1fa87}-\x{1fa89})"
           R"(\x{1fa8f}\x{1faad}-\x{1faaf}\x{1fabb}-\x{1fabf}\x{1fac6}\x{1face}-\x{1facf})"
           R"(\x{1fada}-\x{1fadc}\x{1fadf}\x{1fae8}-\x{1fae9}\x{1faf7}-\x{1faf8})"
           R"(\x{1fbcb}-\x{1fbef})"},
};

// Returns the ranges of code points that are new in a general category ("Lo"), or in all categories
// of a letter ("L"), as the inside of a character class. Empty for any other property.
std::string NewerCodePoints(std::string_view category) {
  std::string out;
  for (const NewerRanges& newer : kNewerRanges) {
    if (!category.empty() && newer.category.starts_with(category)) out += newer.ranges;
  }
  return out;
}

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
        kSharedEscapes.find(letter) == std::string_view::npos)
      return Refuse(rest);
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
                     [&](std::string_view group) { return rest.starts_with(group); }))
      return Refuse(rest);
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
  if (pattern.size() > kPatternBytesMax)
    return InvalidArgument(fmt::format("pattern of {} bytes; at most {} are supported",
                                       pattern.size(), kPatternBytesMax));
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
    if (found < 0)
      return ResourceExhausted(
          fmt::format("the pre-tokenizer's pattern gave up near byte {} of {} (PCRE2 error {}); "
                      "the pattern backtracks too much on this text",
                      from, text.size(), found));
    const PCRE2_SIZE* offsets = pcre2_get_ovector_pointer(state.data);
    const TextRange match{offsets[0], offsets[1]};
    if (match.end < match.begin)
      return InvalidArgument("the pre-tokenizer's pattern moves its match's start behind its end");
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
