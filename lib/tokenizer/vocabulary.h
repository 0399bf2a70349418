// Vocabularies, and the alphabet of byte-level BPE in which they may be written.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace buttress {

// A map from texts that accepts std::string_view as a key.
struct TextHash {
  using is_transparent = void;

  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

template <class Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

using Vocabulary = TextMap<std::int32_t>;

// The alphabet of byte-level BPE writes each of the 256 bytes as one printable character (GPT-2's
// bytes_to_unicode).
//
// The characters are below this code point: 256, and 68 for the bytes that are not printable in
// Latin-1.
inline constexpr char32_t kByteCharacters = 256 + 68;

// Returns the character that represents a byte.
char32_t ByteToCharacter(std::uint8_t byte);

// Returns bytes as a vocabulary writes them: " a" is "Ġa".
std::string BytesToCharacters(std::string_view bytes);

// Returns the bytes that a token represents. A token with a character outside the alphabet
// represents its own UTF-8, as in Hugging Face's decoder. REQUIRES: valid UTF-8.
std::string TokenToBytes(std::string_view token);

}  // namespace buttress
