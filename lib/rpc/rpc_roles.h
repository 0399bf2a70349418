// The roles that may make each call: the one table that every gRPC port checks.
#pragma once

#include <string_view>

#include "lib/base/net/credentials.h"

namespace buttress {

// Returns whether `role` may call the method at `path`, as in "/buttress.v1.Coordinator/Commit". A
// method of this project that has no row is refused to all; other services (health) are open to
// every role.
bool MayCall(Role role, std::string_view path);

// Returns the roles that may call it, for messages: "learner", "operator or monitor", "nobody".
std::string CallersOf(std::string_view path);

}  // namespace buttress
