#include "lib/tokenizer/vocabulary.h"

#include <array>

#include "lib/base/text/unicode.h"

namespace buttress {
namespace {

struct Alphabet {
  std::array<char32_t, 256> characters{};
  std::array<int, kByteCharacters> bytes{};
};

constexpr Alphabet MakeAlphabet() {
  Alphabet alphabet;
  alphabet.bytes.fill(-1);
  char32_t next = 256;
  for (unsigned byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
    const char32_t character = printable ? byte : next++;
    alphabet.characters[byte] = character;
    alphabet.bytes[character] = static_cast<int>(byte);
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = MakeAlphabet();

}  // namespace

char32_t ByteToCharacter(std::uint8_t byte) { return kAlphabet.characters[byte]; }

std::string BytesToCharacters(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (const char c : bytes) {
    const char32_t character = ByteToCharacter(static_cast<std::uint8_t>(c));
    if (character < 0x80) {
      out += static_cast<char>(character);
    } else {
      AppendUtf8(character, out);
    }
  }
  return out;
}

std::string TokenToBytes(std::string_view token) {
  std::string out;
  for (std::size_t at = 0; at < token.size();) {
    const CodePoint c = CodePointAt(token, at);
    const int byte = c.value < kByteCharacters ? kAlphabet.bytes[c.value] : -1;
    if (byte < 0) return std::string(token);
    out.push_back(static_cast<char>(byte));
    at += c.length;
  }
  return out;
}

}  // namespace buttress
