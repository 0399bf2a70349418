#include "lib/explain/text_facts.h"

#include <algorithm>

#include "lib/base/random.h"

namespace buttress {
namespace {

constexpr int kBinBits = 5;
static_assert(TextFacts::kBins == std::size_t{1} << kBinBits);

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool IsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U; }

// Letters, commas and open brackets: after them a text goes on. A digit or another character may
// end an answer.
bool EndsMidway(std::string_view text) {
  while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
  if (text.empty()) return false;
  constexpr std::string_view kGoesOn = ",;:([{<\\+-*/=&_^";
  const char last = text.back();
  return (last >= 'a' && last <= 'z') || (last >= 'A' && last <= 'Z') ||
         kGoesOn.find(last) != std::string_view::npos;
}

// The first word of `text`, which is not empty and begins with no space: letters and digits, else
// one character.
std::size_t WordLength(std::string_view text) {
  std::size_t end = 1;
  if (IsWord(text[0])) {
    while (end < text.size() && IsWord(text[end])) ++end;
  } else {
    while (end < text.size() && IsContinuation(text[end])) ++end;
  }
  return end;
}

class Sketcher {
 public:
  void Add(std::uint64_t word) {
    third_ = second_;
    second_ = first_;
    first_ = word;
    ++facts_.words;
    if (facts_.words >= 3) Place(MixSeed(MixSeed(third_, second_), first_));
  }

  TextFacts Finish(std::uint64_t digest, std::size_t length) {
    if (facts_.words < 3) Place(MixSeed(MixSeed(0, second_), first_));
    facts_.digest = digest == 0 ? 1 : digest;
    facts_.length = static_cast<std::int32_t>(std::min<std::size_t>(length, INT32_MAX));
    return facts_;
  }

 private:
  void Place(std::uint64_t hash) {
    std::uint32_t& least = facts_.sketch[hash >> (64 - kBinBits)];
    const auto value = std::max<std::uint32_t>(1, static_cast<std::uint32_t>(hash));
    least = least == 0 ? value : std::min(least, value);
  }

  TextFacts facts_;
  std::uint64_t first_ = 0, second_ = 0, third_ = 0;
};

}  // namespace

TextFacts FactsOfText(std::string_view text) {
  Sketcher sketcher;
  for (std::size_t at = 0; at < text.size();) {
    if (IsSpace(text[at])) {
      ++at;
      continue;
    }
    const std::size_t size = WordLength(text.substr(at));
    sketcher.Add(HashText(text.substr(at, size)));
    at += size;
  }
  TextFacts facts = sketcher.Finish(HashText(text), text.size());
  facts.ends_midway = EndsMidway(text);
  return facts;
}

TextFacts FactsOfTokens(std::span<const std::int32_t> token_ids) {
  Sketcher sketcher;
  std::uint64_t digest = token_ids.size();
  for (const std::int32_t token : token_ids) {
    const auto word = MixSeed(1, static_cast<std::uint64_t>(token));
    sketcher.Add(word);
    digest = MixSeed(digest, word);
  }
  return sketcher.Finish(digest, token_ids.size());
}

double Similarity(const TextFacts& a, const TextFacts& b) {
  int filled = 0;
  int equal = 0;
  for (std::size_t i = 0; i < TextFacts::kBins; ++i) {
    if (a.sketch[i] == 0 && b.sketch[i] == 0) continue;
    ++filled;
    equal += a.sketch[i] == b.sketch[i] ? 1 : 0;
  }
  return filled == 0 ? 0.0 : static_cast<double>(equal) / filled;
}

}  // namespace buttress
