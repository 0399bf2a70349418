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

#include "lib/base/net/token_file.h"

namespace buttress {

// What the holder of a token may do; lib/rpc/rpc_roles.h has the RPCs of each.
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

// Either the first three fields are set, or none: ports without credentials speak plain text and
// ask for no token, which is meant for the loopback interface. Copies share the token files.
// LoadCredentials in lib/config reads the files.
struct Credentials {
  std::string certificate;  // PEM: the chain from the certificate of this machine up to `ca`
  std::string key;          // PEM: the private key of the certificate
  std::string ca;           // PEM: the authority that signs every certificate of the run
  std::shared_ptr<TokenFile> token;  // sent as "authorization: Bearer <token>"; null: none
  std::map<Role, std::shared_ptr<TokenFile>> admitted;  // of the callers of this program's ports
  std::string name;  // that a server's certificate has; empty: the host of its address

  bool empty() const { return certificate.empty(); }

  // Returns the role whose token an authorization header carries; nullopt if it is none of
  // `admitted`. The time that it takes does not depend on the header's content.
  std::optional<Role> RoleOf(std::string_view authorization) const;
};

}  // namespace buttress
