#include "lib/config/load_credentials.h"

#include <fmt/core.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>

#include <algorithm>
#include <memory>
#include <string>

#include "lib/base/file.h"

namespace buttress {
namespace {

constexpr std::int64_t kMaxFileBytes = 1 << 20;
constexpr std::size_t kShortestToken = 16;
constexpr std::size_t kLongestToken = 4096;

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

Result<std::string> ReadSetting(const std::string& key, const std::string& path) {
  auto text = ReadFile(path, kMaxFileBytes);
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
  return InvalidArgument("local.security.certificate: " + config.certificate +
                         " is not accepted by local.security.ca: " + config.ca + ": " +
                         X509_verify_cert_error_string(X509_STORE_CTX_get_error(context.get())));
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

// The token of a file, without white space at its ends.
Result<std::string> ReadToken(const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(std::string token, ReadSetting("local.security.token_file", path));
  constexpr char kSpace[] = " \t\r\n";
  token.erase(0, token.find_first_not_of(kSpace));
  token.erase(token.find_last_not_of(kSpace) + 1);
  const bool printable =
      std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 127; });
  if (token.size() >= kShortestToken && token.size() <= kLongestToken && printable) return token;
  return InvalidArgument(fmt::format(
      "local.security.token_file: {} holds {} bytes; expected one word of {} to {} printable ASCII "
      "characters",
      path, token.size(), kShortestToken, kLongestToken));
}

}  // namespace

Result<Credentials> LoadCredentials(const SecurityConfig& config) {
  Credentials credentials;
  if (config.certificate.empty()) return credentials;
  BUTTRESS_ASSIGN_OR_RETURN(credentials.certificate,
                            ReadSetting("local.security.certificate", config.certificate));
  BUTTRESS_ASSIGN_OR_RETURN(credentials.key, ReadSetting("local.security.key", config.key));
  BUTTRESS_ASSIGN_OR_RETURN(credentials.ca, ReadSetting("local.security.ca", config.ca));
  BUTTRESS_ASSIGN_OR_RETURN(credentials.token, ReadToken(config.token_file));
  credentials.name = config.name;
  BUTTRESS_RETURN_IF_ERROR(CheckFiles(credentials, config));
  return credentials;
}

}  // namespace buttress
