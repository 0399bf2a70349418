// Reads the files of local.security.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/net/credentials.h"
#include "lib/base/report/status.h"
#include "lib/config/sections/local_config.h"

namespace buttress {

// Who reads the files: it decides which tokens are needed.
//
//   program       sends      admits on its ports
//   coordinator   -          worker, learner, operator, monitor
//   worker        worker     worker (weights), monitor (metrics)
//   learner       learner    worker (weights), monitor (metrics)
//   status        monitor    -
//   operating     operator   -
enum class Program : std::uint8_t { kCoordinator, kWorker, kLearner, kStatus, kOperating };

// The credentials of every port and connection of `program`; empty if local.security names no file.
// kInvalidArgument names the file and the reason: missing, not PEM, the key of another certificate,
// expired, signed by another authority, a token that is too short, not valid in a header, or that
// of another role.
Result<Credentials> LoadCredentials(const SecurityConfig& config, Program program);

// Checks that the certificate has `host`, a DNS name or an address, among its names.
// kInvalidArgument if it has not. REQUIRES: the credentials are not empty.
Status CheckCertificateName(const Credentials& credentials, const std::string& host);

// The days until the first of the certificate and its authority expires, by the clock of this
// machine. REQUIRES: the credentials are not empty.
double CertificateDays(const Credentials& credentials);

}  // namespace buttress
