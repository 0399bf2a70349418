// The tokens of unfinished groups that workers have reported, kept in memory for the lease that
// follows. After a restart of the coordinator the workers report again all that they hold; groups
// of a worker that has died before are sampled again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "lib/experience/lease.h"
#include "lib/experience/partial.h"

namespace buttress {

// Thread safety: none.
class Partials {
 public:
  // The tokens kept at most, 8 bytes each, and those of a group, whose lease is one message; a
  // report that exceeds them is ignored.
  static constexpr std::int64_t kMostTokens = std::int64_t{1} << 25;
  static constexpr std::int64_t kMostOfAGroup = std::int64_t{1} << 22;

  // Adds what the holder of `lease` has sampled. Ignores tokens that do not follow those that are
  // kept of the same lease, as after a restart: what is kept stays the start of the completion. A
  // part that begins with the first token replaces what is kept of older leases.
  void Add(const LeaseRef& lease, PartialCompletion part);

  // Returns what is kept of the group and `may_continue` allows, for the holder of `lease`, which
  // alone may add to it from now on; forgets the rest. Safe to repeat.
  std::vector<PartialCompletion> HandOver(
      const LeaseRef& lease, const std::function<bool(const PartialCompletion&)>& may_continue);

  // Forgets the groups for which `ended` returns true.
  void ForgetIf(const std::function<bool(std::uint64_t group_id)>& ended);
  void Forget(std::uint64_t group_id);

  // Tokens that are kept.
  std::int64_t tokens() const { return tokens_; }

 private:
  struct Kept {
    std::uint64_t lease_epoch = 0;  // of the lease that may add to it
    PartialCompletion completion;   // from its first token on

    std::int64_t size() const { return completion.end(); }
  };

  using Completions = std::map<std::int32_t, Kept>;  // by index

  static std::int64_t CountTokens(const Completions& completions);

  std::map<std::uint64_t, Completions> groups_;
  std::int64_t tokens_ = 0;
};

}  // namespace buttress
