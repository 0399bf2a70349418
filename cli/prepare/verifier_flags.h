// The options of the commands that score a file with a verifier.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/prepare/verify_rows.h"
#include "lib/base/report/status.h"
#include "lib/verify/verifier.h"

namespace CLI {
class App;
}

namespace buttress {

struct VerifierFlags {
  std::string path;
  VerifyFields fields;
  std::string verifier = "math";
  std::vector<std::string> overrides;
  bool use_all = false;
  std::string mode;
  std::vector<std::string> anchors;

  // Adds FILE, the names of its fields, --verifier, --set, and short forms of some settings:
  // --use-all, --mode, --anchors.
  void AddTo(CLI::App& app);

  // kInvalidArgument for an unknown name or an invalid setting.
  Result<std::unique_ptr<VerifierSet>> Make() const;

  // Calls `use` with each row of the dataset and reports its progress on stderr every ten thousand
  // rows. kInvalidArgument for a file that cannot be read, or with all bad rows.
  Status ForEachRow(const std::function<void(const VerifyRow&)>& use) const;
};

}  // namespace buttress
