// Maps from texts that accept std::string_view as a key, and the vocabulary as one of them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace buttress {

struct TextHash {
  using is_transparent = void;

  std::size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>{}(text);
  }
};

template <class Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

using Vocabulary = TextMap<std::int32_t>;

}  // namespace buttress
