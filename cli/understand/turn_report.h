// What a replay of turns finds: which answers are as they were recorded.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/understand/turn_replay.h"
#include "lib/tokenizer/tokenizer.h"

namespace buttress {

// An episode is as it was up to its first turn that differs. Not thread-safe.
class TurnReport {
 public:
  // With `json`, prints a line for each turn. `tokenizer` shows tokens, or is null.
  TurnReport(bool json, const Tokenizer* tokenizer) : json_(json), tokenizer_(tokenizer) {}

  // REQUIRES: the turns of an episode come in their order.
  void Add(const RecordedTurn& turn, const std::vector<std::int32_t>& sampled);

  // Returns what is printed last.
  std::string Summary(const RecordedTurns& recorded, const std::string& model) const;

 private:
  struct Counts {
    std::int64_t turns = 0, equal = 0;
  };

  void PrintTurn(const RecordedTurn& turn, const std::vector<std::int32_t>& sampled,
                 const std::optional<std::size_t>& difference) const;
  std::string SummaryJson(const RecordedTurns& recorded, const std::string& model) const;
  std::string SummaryText(const RecordedTurns& recorded, const std::string& model) const;
  std::int64_t EqualEpisodes() const;

  const bool json_;
  const Tokenizer* const tokenizer_;
  std::map<std::uint64_t, Counts> by_step_;                 // of the weights that sampled
  std::map<std::pair<std::uint64_t, int>, bool> episodes_;  // whether all turns are equal so far
  std::vector<std::string> left_;                           // the first episodes that are not
};

}  // namespace buttress
