// The options of the commands that score a file with one verifier.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cli/verify_rows.h"
#include "lib/base/status.h"
#include "lib/verify/verifier.h"

namespace CLI {
class App;
}

namespace buttress {

struct VerifierFlags {
  std::string path;
  std::string verifier = "math";
  std::vector<std::string> overrides;
  bool use_all = false;
  std::string mode;
  std::vector<std::string> anchors;

  // FILE, --verifier, --set, and short forms of some settings: --use-all, --mode, --anchors.
  void AddTo(CLI::App& app);

  // kInvalidArgument for unknown names and settings that cannot be used.
  Result<std::unique_ptr<Verifier>> Make() const;
};

// Calls `row` with each row of the file, and says on stderr how far it is every ten thousand.
// kNotFound; kDataLoss names the line.
Status ForEachVerifyRow(const std::string& path, const std::function<void(const VerifyRow&)>& row);

}  // namespace buttress
