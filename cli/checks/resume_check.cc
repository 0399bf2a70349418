#include "cli/checks/resume_check.h"

#include <algorithm>
#include <filesystem>

#include "lib/base/os/file.h"
#include "lib/config/load.h"
#include "lib/config/run_folder.h"
#include "lib/config/run_identity.h"

namespace buttress {

void CheckResume(const RunConfig& config, Findings& findings) {
  const std::string& out = config.local.out;
  std::error_code error;
  if (!std::filesystem::exists(JoinPath(out, "ledger.db"), error)) return;
  const auto stored = LoadRunConfig(StoredConfigPath(out), {});
  if (!stored.ok()) return;  // the coordinator compares hashes
  const auto changes = ChangesOf(*stored, config);
  if (std::ranges::all_of(changes, &SettingChange::allowed)) {
    findings.Ok("resume", changes.empty() ? "the settings are those that the run was started with"
                                          : "the run continues with other settings:" +
                                                DescribeChanges(changes));
    return;
  }
  findings.Error("resume", "the run in " + out +
                               " was started with other settings; put the old values back, set "
                               "local.out to another folder, or start again with --fresh:" +
                               DescribeChanges(changes));
}

}  // namespace buttress
