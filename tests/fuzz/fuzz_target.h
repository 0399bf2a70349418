// Parsers of external input: completions of models, files, replies of servers. Each must accept any
// bytes without a crash and within a time bound.
#pragma once

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

// Targets for the output of models, and for files and servers.
std::vector<FuzzTarget> CompletionTargets();
std::vector<FuzzTarget> FileTargets();

}  // namespace buttress
