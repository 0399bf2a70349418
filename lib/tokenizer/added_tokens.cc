#include "lib/tokenizer/added_tokens.h"

#include <algorithm>
#include <functional>

#include "lib/base/text/unicode.h"

namespace buttress {
namespace {

std::size_t CodePointBefore(std::string_view text, std::size_t end) {
  std::size_t at = end - 1;
  while (at > 0 && (static_cast<std::uint8_t>(text[at]) & 0xC0U) == 0x80U) --at;
  return at;
}

bool EndsWithWord(std::string_view text) {
  return !text.empty() &&
         IsWordCharacter(CodePointAt(text, CodePointBefore(text, text.size())).value);
}

bool StartsWithWord(std::string_view text) {
  return !text.empty() && IsWordCharacter(CodePointAt(text, 0).value);
}

std::size_t BeforeWhiteSpace(std::string_view text, std::size_t end) {
  while (end > 0) {
    const std::size_t at = CodePointBefore(text, end);
    if (!IsWhiteSpace(CodePointAt(text, at).value)) break;
    end = at;
  }
  return end;
}

std::size_t AfterWhiteSpace(std::string_view text, std::size_t begin) {
  while (begin < text.size()) {
    const CodePoint c = CodePointAt(text, begin);
    if (!IsWhiteSpace(c.value)) break;
    begin += c.length;
  }
  return begin;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& content = tokens_[i].content;
    index_.emplace(content, i);
    lengths_by_first_byte_[static_cast<std::uint8_t>(content.front())].push_back(content.size());
  }
  for (std::vector<std::size_t>& lengths : lengths_by_first_byte_) {
    std::sort(lengths.begin(), lengths.end(), std::greater<>());
    lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  }
}

const AddedToken* AddedTokenFinder::LongestAt(std::string_view rest) const {
  for (const std::size_t length : lengths_by_first_byte_[static_cast<std::uint8_t>(rest.front())]) {
    if (length > rest.size()) continue;
    const auto it = index_.find(rest.substr(0, length));
    if (it != index_.end()) return &tokens_[it->second];
  }
  return nullptr;
}

std::vector<AddedTokenPart> AddedTokenFinder::Split(std::string_view text) const {
  std::vector<AddedTokenPart> parts;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const AddedToken* token = LongestAt(text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    std::size_t end = at + token->content.size();
    at = end;
    if (token->single_word &&
        (EndsWithWord(text.substr(0, begin)) || StartsWithWord(text.substr(end))))
      continue;
    if (token->lstrip) begin = std::max(BeforeWhiteSpace(text, begin), done);
    if (token->rstrip) end = AfterWhiteSpace(text, end);
    if (begin > done) parts.push_back({std::nullopt, {done, begin}});
    parts.push_back({token->id, {begin, end}});
    done = end;
  }
  if (done < text.size()) parts.push_back({std::nullopt, {done, text.size()}});
  return parts;
}

}  // namespace buttress
