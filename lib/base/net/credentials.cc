#include "lib/base/net/credentials.h"

#include <absl/strings/ascii.h>
#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "lib/base/net/secret.h"
#include "lib/base/os/file.h"
#include "lib/base/report/log.h"
#include "lib/base/text/digest.h"

namespace buttress {
namespace {

constexpr std::int64_t kMaxFileBytes = 1 << 20;
constexpr std::size_t kShortestToken = 16;
constexpr std::size_t kLongestToken = 4096;

// Returns the token of a file, without the white space at its ends.
Result<std::string> ReadToken(const std::string& path) {
  auto text = ReadSecretFile(path, kMaxFileBytes);
  if (text.status().code() == StatusCode::kInvalidArgument) return text.status();
  if (!text.ok())
    return InvalidArgument(text.status().message() + "; deploy/make-certs.sh creates it");
  std::string token = *std::move(text);
  absl::StripAsciiWhitespace(&token);
  const bool printable =
      std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 127; });
  if (token.size() >= kShortestToken && token.size() <= kLongestToken && printable) return token;
  return InvalidArgument(
      fmt::format("{} holds {} bytes; expected one word of {} to {} printable ASCII characters",
                  path, token.size(), kShortestToken, kLongestToken));
}

}  // namespace

TokenFile::TokenFile(std::string path, const Clock& clock, std::string token)
    : path_(std::move(path)),
      clock_(clock),
      token_(std::move(token)),
      checked_ms_(clock.MonotonicMs()) {}

Result<std::shared_ptr<TokenFile>> TokenFile::Open(std::string path, const Clock& clock) {
  BUTTRESS_ASSIGN_OR_RETURN(std::string token, ReadToken(path));
  return std::shared_ptr<TokenFile>(new TokenFile(std::move(path), clock, std::move(token)));
}

std::vector<std::string> TokenFile::Valid() {
  MutexLock lock(mutex_);
  Refresh();
  std::vector<std::string> valid = {token_};
  if (!previous_.empty()) valid.push_back(previous_);
  return valid;
}

bool TokenFile::Admits(std::string_view authorization) {
  bool admitted = false;
  for (const std::string& token : Valid())
    admitted = IsSecretOf(authorization, Sha256Of("Bearer " + token)) || admitted;
  return admitted;
}

void TokenFile::Refresh() {
  const std::int64_t now_ms = clock_.MonotonicMs();
  if (now_ms >= previous_until_ms_) previous_.clear();
  if (now_ms < checked_ms_ + kCheckMs) return;
  checked_ms_ = now_ms;
  auto token = ReadToken(path_);
  const std::string error = token.ok() ? "" : token.status().message();
  if (!error.empty() && error != logged_error_)
    Log(kWarn, "the token file cannot be used; the token read before stays", {{"error", error}});
  logged_error_ = error;
  if (!token.ok() || *token == token_) return;
  previous_ = std::exchange(token_, *std::move(token));
  previous_until_ms_ = now_ms + kOverlapMs;
  Log(kInfo, "the token file has changed", {{"file", path_}, {"both_valid_ms", kOverlapMs}});
}

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
