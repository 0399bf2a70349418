// The fence between two coordinators of one run, of which one was started on a copy of the other's
// ledger: a standby's, or a backup's.
#pragma once

#include <set>
#include <string>
#include <string_view>

namespace buttress {

// The starts of coordinators that the ledger knows, this one included.
struct KnownStarts {
  std::string run_id;
  std::string own;  // empty: callers are not asked which start they know
  std::set<std::string> all;

  // What this coordinator calls itself in its answers.
  std::string name() const { return run_id + "/" + own; }

  // Returns whether a caller may be served whom the coordinator `named` has answered last. One that
  // the ledger does not know continues this run elsewhere.
  bool Admits(std::string_view named) const {
    const std::size_t end_of_run = named.find('/');
    return named.substr(0, end_of_run) != run_id ||
           all.contains(std::string(named.substr(end_of_run + 1)));
  }
};

}  // namespace buttress
