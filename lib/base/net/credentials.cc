#include "lib/base/net/credentials.h"

namespace buttress {

std::string_view RoleName(Role role) {
  static constexpr std::array<std::string_view, kRoles.size()> kNames = {"worker", "learner",
                                                                         "operator", "monitor"};
  return kNames[static_cast<std::size_t>(role)];
}

std::optional<Role> Credentials::RoleOf(std::string_view authorization) const {
  std::optional<Role> found;
  for (const auto& [role, file] : admitted) {
    if (file->Admits(authorization)) found = role;
  }
  return found;
}

}  // namespace buttress
