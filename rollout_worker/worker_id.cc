#include "rollout_worker/worker_id.h"

#include <unistd.h>

#include <climits>

#include "lib/base/net/secret.h"
#include "lib/base/text/digest.h"
#include "lib/weights/part_file.h"

namespace buttress {

Result<std::string> WorkerIdOf(const WorkerConfig& config) {
  if (!config.id.empty()) {
    if (IsPlainFileName(config.id)) return config.id;
    return InvalidArgument("local.worker.id = '" + config.id +
                           "' becomes part of file names; use letters, digits, '-' and '_'");
  }
  char host[HOST_NAME_MAX + 1] = {};
  if (::gethostname(host, HOST_NAME_MAX) != 0)
    return Unavailable("this machine has no host name; set local.worker.id");
  constexpr std::size_t kSuffixBytes = 6;
  return std::string(host) + "-" + ToHex(MakeSecret().substr(0, kSuffixBytes));
}

}  // namespace buttress
