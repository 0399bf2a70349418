#include "lib/weights/word_changes.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace buttress {
namespace {

static_assert(std::endian::native == std::endian::little);

// A last odd byte is a word whose upper half is 0.
std::uint16_t WordAt(std::string_view bytes, std::size_t word) {
  std::uint16_t value = 0;
  const std::string_view from = bytes.substr(2 * word, sizeof value);
  std::memcpy(&value, from.data(), from.size());
  return value;
}

void AppendVarint(std::uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

// Removes the first integer of `bytes`; nullopt if there is none.
std::optional<std::uint64_t> TakeVarint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<std::uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// Small numbers of either sign become small numbers: 0, -1, 1, -2 become 0, 1, 2, 3.
std::uint16_t ZigZag(std::uint16_t difference) {
  return static_cast<std::uint16_t>((difference << 1) ^ -(difference >> 15));
}

std::uint16_t UnZigZag(std::uint64_t code) {
  return static_cast<std::uint16_t>((code >> 1) ^ -(code & 1));
}

// Returns the first word from `word` on that differs, or the number of words.
std::size_t NextChange(std::string_view base, std::string_view next, std::size_t word) {
  const std::size_t words = (next.size() + 1) / 2;
  constexpr std::size_t kBlock = 512;  // bytes that memcmp compares at once
  while (2 * word + kBlock <= next.size() &&
         std::memcmp(base.data() + 2 * word, next.data() + 2 * word, kBlock) == 0)
    word += kBlock / 2;
  while (word < words && WordAt(base, word) == WordAt(next, word)) ++word;
  return word;
}

}  // namespace

std::optional<std::string> EncodeChanges(std::string_view base, std::string_view next) {
  const std::size_t words = (next.size() + 1) / 2;
  std::string changes;
  std::size_t behind = 0;  // the last change
  for (std::size_t word = NextChange(base, next, 0); word < words;
       word = NextChange(base, next, word + 1)) {
    AppendVarint(word - behind, changes);
    const auto difference = static_cast<std::uint16_t>(WordAt(next, word) - WordAt(base, word));
    AppendVarint(ZigZag(difference), changes);
    behind = word + 1;
    if (changes.size() >= next.size()) return std::nullopt;
  }
  return changes;
}

Status ApplyChanges(std::string_view changes, std::string& bytes) {
  std::size_t word = 0;
  while (!changes.empty()) {
    const auto gap = TakeVarint(changes);
    const auto code = TakeVarint(changes);
    const std::size_t words = (bytes.size() + 1) / 2;
    if (!gap || !code || *gap >= words - word) return DataLoss("changes do not fit their base");
    word += *gap;
    const auto value = static_cast<std::uint16_t>(WordAt(bytes, word) + UnZigZag(*code));
    std::memcpy(bytes.data() + 2 * word, &value, std::min(sizeof value, bytes.size() - 2 * word));
    ++word;
  }
  return OkStatus();
}

}  // namespace buttress
