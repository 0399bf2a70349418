// Verifier normalized: compares words without regard to case, punctuation, articles and white
// space, like the evaluation of SQuAD (arXiv 1606.05250).
//
// The reference may be a JSON list of texts, each of which is correct. Letters are folded by
// Unicode (NFKC and case folding), so that "ﬁne" equals "fine" and "STRASSE" equals "straße".
#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "lib/base/text/bounded_json.h"
#include "lib/verify/extract.h"
#include "lib/verify/verifiers.h"

namespace buttress {
namespace {

using nlohmann::json;

// utf8proc orders combining marks in quadratic time, so longer texts are not folded. No answer in
// words is that long.
constexpr std::size_t kMaxBytes = 4096;

bool IsPunctuation(utf8proc_int32_t code_point) {
  const utf8proc_category_t category = utf8proc_category(code_point);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_SO;
}

// Returns the words without punctuation and articles, separated by one space. REQUIRES: valid
// UTF-8.
std::string KeepWords(std::string_view folded) {
  std::string words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty() && word != "a" && word != "an" && word != "the")
      words += (words.empty() ? "" : " ") + word;
    word.clear();
  };
  for (std::size_t at = 0; at < folded.size();) {
    utf8proc_int32_t code_point = 0;
    const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(folded.data() + at);
    const utf8proc_ssize_t length =
        utf8proc_iterate(bytes, static_cast<utf8proc_ssize_t>(folded.size() - at), &code_point);
    if (length <= 0) break;
    const utf8proc_category_t category = utf8proc_category(code_point);
    const bool space = category >= UTF8PROC_CATEGORY_ZS || code_point <= ' ';
    if (space) {
      end_word();
    } else if (!IsPunctuation(code_point)) {
      word.append(folded.substr(at, static_cast<std::size_t>(length)));
    }
    at += static_cast<std::size_t>(length);
  }
  end_word();
  return words;
}

// Returns nullopt if `text` is too long or not UTF-8.
std::optional<std::string> Normalize(std::string_view text) {
  if (text.size() > kMaxBytes) return std::nullopt;
  utf8proc_uint8_t* folded = nullptr;
  const utf8proc_ssize_t length =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                   static_cast<utf8proc_ssize_t>(text.size()), &folded,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE |
                                                  UTF8PROC_COMPAT | UTF8PROC_CASEFOLD));
  if (length < 0) return std::nullopt;
  std::string words =
      KeepWords({reinterpret_cast<const char*>(folded), static_cast<std::size_t>(length)});
  std::free(folded);
  return words;
}

// Returns the correct texts; empty if the reference is malformed.
std::vector<std::string> References(std::string_view answer) {
  std::vector<std::string> references;
  const auto add = [&](std::string_view text) {
    if (auto normal = Normalize(text); normal && !normal->empty())
      references.push_back(*std::move(normal));
  };
  const Result<json> list = ParseBoundedJson(answer.starts_with('[') ? answer : "");
  if (!list.ok() || !list->is_array()) {
    add(answer);
    return references;
  }
  for (const json& item : *list) {
    if (!item.is_string()) return {};
    add(item.get_ref<const std::string&>());
  }
  return references;
}

class Normalized : public Verifier {
 public:
  Verdict Verify(const VerifyRequest& request) const override {
    const std::vector<std::string> references = References(Trim(request.answer));
    if (references.empty())
      return Unscorable("answer: no words; expected a text or a JSON list of texts");
    const auto found = FindFinalAnswer(request);
    const auto given = found ? Normalize(found->text) : std::nullopt;
    const bool right =
        given && std::find(references.begin(), references.end(), *given) != references.end();
    Verdict verdict =
        right ? Correct(*given, *given) : Wrong(given.value_or(""), references.front());
    if (found) verdict.anchor = found->anchor;
    return verdict;
  }
};

}  // namespace

std::unique_ptr<Verifier> MakeNormalized(const RewardConfig& /*config*/) {
  return std::make_unique<Normalized>();
}

}  // namespace buttress
