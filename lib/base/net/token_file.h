// A token by which a program shows its role, kept in a file that may be replaced while it is used.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/os/clock.h"
#include "lib/base/report/status.h"
#include "lib/base/thread/sync.h"

namespace buttress {

// Reads the file again when it is asked, at most once a second. After a change the token before it
// stays valid for kOverlapMs, because the copies of a file on several machines do not change at one
// moment; a second change ends that at once. A file that is missing or malformed after the start
// changes nothing and is logged. Thread-safe.
class TokenFile {
 public:
  static constexpr std::int64_t kOverlapMs = 15 * 60 * 1000;
  static constexpr std::int64_t kCheckMs = 1000;

  // `clock` outlives the object. kInvalidArgument if the file is missing or does not hold one word
  // of 16 to 4096 printable ASCII characters.
  static Result<std::shared_ptr<TokenFile>> Open(std::string path,
                                                 const Clock& clock = RealClock());

  // Returns the tokens that are valid now, the newest first: one or two.
  std::vector<std::string> Valid();

  // Returns whether an authorization header, "Bearer <token>", carries a valid token. The time that
  // it takes does not depend on the header's content.
  bool Admits(std::string_view authorization);

  const std::string& path() const { return path_; }

 private:
  TokenFile(std::string path, const Clock& clock, std::string token);

  void Refresh() REQUIRES(mutex_);

  const std::string path_;
  const Clock& clock_;
  Mutex mutex_;
  std::string token_ GUARDED_BY(mutex_);
  std::string previous_ GUARDED_BY(mutex_);  // empty: none is valid
  std::int64_t previous_until_ms_ GUARDED_BY(mutex_) = 0;
  std::int64_t checked_ms_ GUARDED_BY(mutex_);
  std::string logged_error_ GUARDED_BY(mutex_);
};

}  // namespace buttress
