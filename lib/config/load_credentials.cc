#include "lib/config/load_credentials.h"

#include <fmt/core.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/net/secret.h"
#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"

namespace buttress {
namespace {

constexpr std::int64_t kMaxFileBytes = 1 << 20;

struct Free {
  void operator()(BIO* bio) const { BIO_free(bio); }

  void operator()(X509* certificate) const { X509_free(certificate); }

  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }

  void operator()(X509_STORE* store) const { X509_STORE_free(store); }

  void operator()(X509_STORE_CTX* context) const { X509_STORE_CTX_free(context); }

  void operator()(STACK_OF(X509) * list) const { sk_X509_pop_free(list, X509_free); }
};

template <class T>
using Owned = std::unique_ptr<T, Free>;

enum class Kept : std::uint8_t { kOpen, kSecret };

Result<std::string> ReadSetting(const std::string& key, const std::string& path,
                                Kept kept = Kept::kOpen) {
  auto text =
      kept == Kept::kSecret ? ReadSecretFile(path, kMaxFileBytes) : ReadFile(path, kMaxFileBytes);
  if (text.status().code() == StatusCode::kInvalidArgument) return text.status().Annotate(key);
  if (!text.ok())
    return InvalidArgument(key + ": " + text.status().message() +
                           "; deploy/make-certs.sh creates it");
  return text;
}

Owned<BIO> Reader(const std::string& pem) {
  return Owned<BIO>(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// Every certificate of a file, in order.
Owned<STACK_OF(X509)> Certificates(const std::string& pem) {
  Owned<STACK_OF(X509)> list(sk_X509_new_null());
  const Owned<BIO> reader = Reader(pem);
  while (X509* certificate = PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr))
    sk_X509_push(list.get(), certificate);
  return list;
}

// Checks that a peer that trusts `ca` accepts `own`, expiry included.
Status CheckChain(STACK_OF(X509) * own, STACK_OF(X509) * ca, const SecurityConfig& config) {
  const Owned<X509_STORE> store(X509_STORE_new());
  for (int i = 0; i < sk_X509_num(ca); ++i) X509_STORE_add_cert(store.get(), sk_X509_value(ca, i));
  const Owned<X509_STORE_CTX> context(X509_STORE_CTX_new());
  if (X509_STORE_CTX_init(context.get(), store.get(), sk_X509_value(own, 0), own) != 1)
    return Internal("X509_STORE_CTX_init");
  if (X509_verify_cert(context.get()) == 1) return OkStatus();
  const int error = X509_STORE_CTX_get_error(context.get());
  const bool by_time =
      error == X509_V_ERR_CERT_NOT_YET_VALID || error == X509_V_ERR_CERT_HAS_EXPIRED;
  return InvalidArgument(
      "local.security.certificate: " + config.certificate +
      " is not accepted by local.security.ca: " + config.ca + ": " +
      X509_verify_cert_error_string(error) +
      (by_time ? "; the clock of this machine shows " + FormatUtc(RealClock().UnixMs()) : ""));
}

Status CheckFiles(const Credentials& credentials, const SecurityConfig& config) {
  const auto own = Certificates(credentials.certificate), ca = Certificates(credentials.ca);
  if (sk_X509_num(own.get()) == 0)
    return InvalidArgument("local.security.certificate: " + config.certificate +
                           " holds no PEM certificate");
  if (sk_X509_num(ca.get()) == 0)
    return InvalidArgument("local.security.ca: " + config.ca + " holds no PEM certificate");
  const Owned<EVP_PKEY> key(
      PEM_read_bio_PrivateKey(Reader(credentials.key).get(), nullptr, nullptr, nullptr));
  if (!key)
    return InvalidArgument("local.security.key: " + config.key +
                           " holds no PEM private key without a password");
  if (X509_check_private_key(sk_X509_value(own.get(), 0), key.get()) != 1) {
    return InvalidArgument("local.security.key: " + config.key + " is not the key of " +
                           config.certificate);
  }
  return CheckChain(own.get(), ca.get(), config);
}

// The token that a program sends, and those of the callers that its ports admit.
struct TokenUse {
  std::optional<Role> sends;
  std::vector<Role> admits;
};

TokenUse UseOf(Program program) {
  switch (program) {
    case Program::kCoordinator:
      return {std::nullopt, {kRoles.begin(), kRoles.end()}};
    case Program::kWorker:
      return {Role::kWorker, {Role::kWorker, Role::kMonitor}};
    case Program::kLearner:
      return {Role::kLearner, {Role::kWorker, Role::kMonitor}};
    case Program::kStatus:
      return {Role::kMonitor, {}};
    case Program::kOperating:
      break;
  }
  return {Role::kOperator, {}};
}

Result<std::shared_ptr<TokenFile>> OpenToken(const std::string& folder, Role role) {
  auto file = TokenFile::Open(JoinPath(folder, std::string(RoleName(role)) + ".token"));
  if (!file.ok()) return file.status().Annotate("local.security.tokens");
  return file;
}

// Roles with one token would be one role.
Status CheckDistinct(const std::map<Role, std::shared_ptr<TokenFile>>& files) {
  std::map<std::string, Role> owners;
  for (const auto& [role, file] : files) {
    const auto [owner, is_new] = owners.emplace(file->Valid().front(), role);
    if (is_new) continue;
    return InvalidArgument(fmt::format(
        "local.security.tokens: {} holds the token of the {}; give each role a token of its own, "
        "for example with openssl rand -hex 32",
        file->path(), RoleName(owner->second)));
  }
  return OkStatus();
}

Status OpenTokens(const std::string& folder, Program program, Credentials& credentials) {
  const TokenUse use = UseOf(program);
  for (const Role role : use.admits) {
    BUTTRESS_ASSIGN_OR_RETURN(credentials.admitted[role], OpenToken(folder, role));
  }
  if (use.sends) {
    BUTTRESS_ASSIGN_OR_RETURN(credentials.token, OpenToken(folder, *use.sends));
  }
  return CheckDistinct(credentials.admitted);
}

}  // namespace

Result<Credentials> LoadCredentials(const SecurityConfig& config, Program program) {
  Credentials credentials;
  if (config.certificate.empty()) return credentials;
  credentials.files = {config.certificate, config.key, config.ca};
  BUTTRESS_ASSIGN_OR_RETURN(credentials.certificate,
                            ReadSetting("local.security.certificate", config.certificate));
  BUTTRESS_ASSIGN_OR_RETURN(credentials.key,
                            ReadSetting("local.security.key", config.key, Kept::kSecret));
  BUTTRESS_ASSIGN_OR_RETURN(credentials.ca, ReadSetting("local.security.ca", config.ca));
  BUTTRESS_RETURN_IF_ERROR(OpenTokens(config.tokens, program, credentials));
  credentials.name = config.name;
  BUTTRESS_RETURN_IF_ERROR(CheckFiles(credentials, config));
  return credentials;
}

Status CheckCertificateName(const Credentials& credentials, const std::string& host) {
  const auto own = Certificates(credentials.certificate);
  X509* const certificate = sk_X509_value(own.get(), 0);
  if (X509_check_host(certificate, host.data(), host.size(), 0, nullptr) == 1 ||
      X509_check_ip_asc(certificate, host.c_str(), 0) == 1)
    return OkStatus();
  return InvalidArgument(
      fmt::format("the certificate does not name {}, by which peers reach this machine; make one "
                  "that does (deploy/make-certs.sh DIR NAME,{}), or advertise a name that it has",
                  host, host));
}

double CertificateDays(const Credentials& credentials) {
  double least = std::numeric_limits<double>::infinity();
  for (const std::string& pem : {credentials.certificate, credentials.ca}) {
    const auto list = Certificates(pem);
    for (int i = 0; i < sk_X509_num(list.get()); ++i) {
      int days = 0, seconds = 0;
      ASN1_TIME_diff(&days, &seconds, nullptr, X509_get0_notAfter(sk_X509_value(list.get(), i)));
      least = std::min(least, days + seconds / 86400.0);
    }
  }
  return least;
}

}  // namespace buttress
