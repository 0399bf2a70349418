// The identity of a program, and whom its ports admit: a TLS certificate, and a token
// for each role.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/os/clock.h"
#include "lib/base/report/status.h"
#include "lib/base/thread/sync.h"

namespace buttress {

// A token by which a program shows its role, kept in a file that may be replaced while it is used.
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

// What the holder of a token may do; lib/rpc/channel.cc has the RPCs of each.
enum class Role : std::uint8_t {
  kWorker,    // leases prompts and submits groups
  kLearner,   // takes plans, commits steps, announces weights
  kOperator,  // reads the status, gives orders to workers, stops the run
  kMonitor,   // reads the status and /metrics
};

inline constexpr std::array kRoles = {Role::kWorker, Role::kLearner, Role::kOperator,
                                      Role::kMonitor};

// "worker", "learner", "operator", "monitor"; with ".token", the name of the role's file.
std::string_view RoleName(Role role);

// How soon a connection that begins uses files that were replaced.
inline constexpr int kCertificateRefreshSeconds = 5;

// The files of a certificate, in PEM. Ports and connections read them again while they are used;
// connections that exist stay. A key and its certificate are replaced together: while they do not
// match, no connection begins.
struct CertificateFiles {
  std::string certificate;  // the chain from the certificate of this machine up to `ca`
  std::string key;          // the private key of the certificate
  std::string ca;           // the authorities, one of which signs every certificate of the run

  auto operator<=>(const CertificateFiles&) const = default;
};

// Either files and the fields after them are set, or none: ports without credentials speak plain
// text and ask for no token, which is meant for the loopback interface. Copies share the token
// files. LoadCredentials in lib/config reads the files.
struct Credentials {
  CertificateFiles files;
  std::string certificate;  // as the files were when the program started
  std::string key;
  std::string ca;
  std::shared_ptr<TokenFile> token;  // sent as "authorization: Bearer <token>"; null: none
  std::map<Role, std::shared_ptr<TokenFile>> admitted;  // of the callers of this program's ports
  std::string name;  // that a server's certificate has; empty: the host of its address

  bool empty() const { return files.certificate.empty(); }

  // Returns the role whose token an authorization header carries; nullopt if it is none of
  // `admitted`. The time that it takes does not depend on the header's content.
  std::optional<Role> RoleOf(std::string_view authorization) const;
};

}  // namespace buttress
