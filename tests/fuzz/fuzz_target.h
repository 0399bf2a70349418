// Parsers of external input: completions of models, files, replies of servers. Each must accept any
// bytes without a crash and within a time bound.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace buttress {

struct FuzzTarget {
  std::string_view name;
  std::vector<std::string> (*corpus)();          // real inputs; not empty
  std::span<const std::string_view> dictionary;  // pieces of the grammar
  std::size_t max_bytes;                         // of an input
  void (*run)(std::string_view input);           // returns for every input
};

// The words of a literal, between blanks and line ends.
inline std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; (at = text.find_first_not_of(" \n", at)) != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

// Targets for the output of models, and for files and servers.
std::vector<FuzzTarget> CompletionTargets();
std::vector<FuzzTarget> FileTargets();

}  // namespace buttress
