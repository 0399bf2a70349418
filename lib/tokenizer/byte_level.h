// The alphabet of byte-level BPE: each of the 256 bytes is written as one printable character
// (GPT-2's bytes_to_unicode).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace buttress {

// The characters are below this code point: 256, and 68 for the bytes that are not printable in
// Latin-1.
inline constexpr char32_t kByteCharacters = 256 + 68;

// Returns the character that represents a byte.
char32_t ByteToCharacter(std::uint8_t byte);

// Returns the byte that a character represents, or -1.
int CharacterToByte(char32_t character);

// Returns bytes as a vocabulary writes them: " a" is "Ġa".
std::string BytesToCharacters(std::string_view bytes);

// Returns the bytes that a token represents. A token with a character outside the alphabet
// represents its own UTF-8, as in Hugging Face's decoder. REQUIRES: valid UTF-8.
std::string TokenToBytes(std::string_view token);

}  // namespace buttress
