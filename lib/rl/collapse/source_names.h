// The names under which data sources are reported. Their number is bounded, so that a dataset in
// which every row names another source makes no list as long as itself.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "lib/experience/collapse.h"

namespace buttress {

inline constexpr std::size_t kMaxSources = 32;
inline constexpr const char* kOtherSources = "other";

// The first kMaxSources sources that are asked for have their own names, all others together
// kOtherSources. Not thread-safe.
class SourceNames {
 public:
  std::string Of(const std::string& source);

 private:
  std::set<std::string> own_;
};

// Adds up the counts of each reported name. Sources without a name yet are asked for in the order
// of their groups, most first.
std::map<std::string, CollapseCounts> ReportedSources(
    const std::map<std::string, CollapseCounts>& by_source, SourceNames& names);

}  // namespace buttress
