#include "learner/output/folder_ranks.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>

#include "lib/base/net/secret.h"
#include "lib/base/os/file.h"
#include "lib/base/text/digest.h"

namespace buttress {
namespace {

Result<std::vector<std::int64_t>> GatherNumbers(std::int64_t own, Collective& control,
                                                std::chrono::milliseconds timeout) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(control.size()));
  BUTTRESS_RETURN_IF_ERROR(
      control
          .AllGather({&own, 1, DType::kInt64},
                     {all.data(), static_cast<std::int64_t>(all.size()), DType::kInt64})
          ->Wait(timeout));
  return all;
}

}  // namespace

Status AgreeOn(const Status& own, Collective& control, std::chrono::milliseconds timeout) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<std::int64_t> codes,
                            GatherNumbers(static_cast<std::int64_t>(own.code()), control, timeout));
  const auto failed = std::ranges::find_if(codes, [](std::int64_t code) { return code != 0; });
  if (failed == codes.end()) return OkStatus();
  BUTTRESS_ASSIGN_OR_RETURN(
      std::string message,
      BroadcastBytes(control, own.message(), static_cast<int>(failed - codes.begin()), timeout));
  return {static_cast<StatusCode>(*failed), std::move(message)};
}

Result<std::vector<bool>> RanksThatSee(const std::string& folder, Collective& control,
                                       std::chrono::milliseconds timeout) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string name,
                            BroadcastBytes(control, "probe-" + ToHex(MakeSecret()), 0, timeout));
  const std::string path = JoinPath(folder, name);
  Status created;
  if (control.rank() == 0) created = MakeFolders(folder);
  if (control.rank() == 0 && created.ok()) created = WriteFileAtomic(path, "");
  BUTTRESS_RETURN_IF_ERROR(AgreeOn(created, control, timeout));
  std::error_code ignored;
  const bool seen = std::filesystem::exists(path, ignored);
  BUTTRESS_ASSIGN_OR_RETURN(const std::vector<std::int64_t> all,
                            GatherNumbers(seen ? 1 : 0, control, timeout));
  // All ranks have looked.
  if (control.rank() == 0) std::filesystem::remove(path, ignored);
  return std::vector<bool>(all.begin(), all.end());
}

}  // namespace buttress
