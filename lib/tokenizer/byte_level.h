// The alphabet of byte-level BPE: each of the 256 bytes is written as one printable character
// (GPT-2's bytes_to_unicode).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace buttress {

char32_t ByteToCharacter(std::uint8_t byte);

// The byte that a character stands for, or -1.
int CharacterToByte(char32_t character);

// How a vocabulary writes these bytes: " a" is "Ġa".
std::string BytesToCharacters(std::string_view bytes);

// The bytes that a token stands for. A token with a character outside the alphabet stands for its
// own UTF-8 as a whole, as in Hugging Face's decoder. REQUIRES: valid UTF-8.
std::string TokenToBytes(std::string_view token);

}  // namespace buttress
