// The bound of refused submissions: where none is what was leased, another try gives no other.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>

#include "lib/base/report/status.h"

namespace buttress {

// Refusals of one kind, one behind the other, without an accepted group between them. Workers whose
// build is another than the coordinator's, or whose files are, deliver nothing else, and every
// group would be leased and sampled again, and others once it is dropped, without an end. A single
// broken worker among others is set aside by its strikes (workers.h). Not thread-safe; a restart of
// the coordinator begins with none.
class Refusals {
 public:
  static constexpr std::size_t kMost = 64;

  void NoteAccepted() { *this = {}; }

  // Notes a refusal. kInvalidArgument with `why`, if kMost are there and `is_everybody` says that
  // their workers are all that could deliver. Reasons are of one kind if they are equal but for
  // digits.
  Status Note(const std::string& worker_id, const std::string& why,
              const std::function<bool(const std::set<std::string>& workers)>& is_everybody);

 private:
  std::string kind_;
  std::size_t count_ = 0;
  std::set<std::string> workers_;
};

}  // namespace buttress
