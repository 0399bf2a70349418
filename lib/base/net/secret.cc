#include "lib/base/net/secret.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "lib/base/os/fd.h"
#include "lib/base/os/file.h"
#include "lib/base/report/check.h"
#include "lib/base/text/digest.h"

namespace buttress {
namespace {

constexpr std::size_t kSecretBytes = 32;

}  // namespace

std::string MakeSecret() {
  std::string secret(kSecretBytes, '\0');
  const int made = ::RAND_bytes(reinterpret_cast<unsigned char*>(secret.data()),
                                static_cast<int>(secret.size()));
  BUTTRESS_CHECK(made == 1, "the random generator of OpenSSL has a source");
  return secret;
}

bool IsSecretOf(std::string_view secret, std::string_view sha256) {
  const std::string offered = Sha256Of(secret);
  return sha256.size() == offered.size() &&
         CRYPTO_memcmp(offered.data(), sha256.data(), sha256.size()) == 0;
}

Result<std::string> ReadSecretFile(const std::string& path, std::int64_t max_bytes) {
  struct stat info {};

  if (::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
      (info.st_mode & (S_IRWXO | S_IWGRP)) != 0) {
    return InvalidArgument(fmt::format(
        "{} holds a secret and has mode {:04o}: other users may read it or the group may write it; "
        "chmod 600 {}, or 640 for a group that needs it",
        path, info.st_mode & 07777, path));
  }
  return ReadFile(path, max_bytes);
}

Status WriteSecretFile(const std::string& path, const std::string& text) {
  const std::string part = path + ".part";
  std::remove(part.c_str());  // it might be readable by others
  const OwnedFd fd(::open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (fd.get() < 0) return Unavailable("cannot create " + part + ": " + std::strerror(errno));
  const bool whole = ::write(fd.get(), text.data(), text.size()) == std::ssize(text);
  if (whole && std::rename(part.c_str(), path.c_str()) == 0) return OkStatus();
  return Unavailable("cannot write " + path + ": " + std::strerror(errno));
}

Result<std::string> KeptSecret(const std::string& path) {
  auto kept = ReadSecretFile(path, static_cast<std::int64_t>(kSecretBytes));
  if (kept.ok() && kept->size() == kSecretBytes) return kept;
  if (!kept.ok() && kept.status().code() != StatusCode::kNotFound) return kept.status();
  std::string secret = MakeSecret();
  BUTTRESS_RETURN_IF_ERROR(WriteSecretFile(path, secret));
  return secret;
}

}  // namespace buttress
