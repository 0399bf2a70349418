// The open SubmitGroups streams.
#pragma once

#include <set>

#include "lib/base/sync.h"

namespace buttress {

class SubmitStream;

// Thread-safe.
class SubmitStreams {
 public:
  void Add(SubmitStream* stream);
  void Remove(SubmitStream* stream);

  // Ends every stream: an idle one at once, a busy one after the answer to its group, one that is
  // added later at once.
  void End();

 private:
  Mutex mutex_;
  bool ended_ GUARDED_BY(mutex_) = false;
  std::set<SubmitStream*> open_ GUARDED_BY(mutex_);
};

}  // namespace buttress
