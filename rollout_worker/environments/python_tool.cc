#include <algorithm>
#include <memory>

#include "lib/base/text/unicode.h"
#include "lib/verify/sandbox/sandbox.h"
#include "rollout_worker/environments/tool.h"

namespace buttress {
namespace {

constexpr std::int64_t kBytesOfMegabyte = 1 << 20;

// Why a program did not end by itself; empty if it did.
std::string_view LimitOf(SandboxEnd end) {
  switch (end) {
    case SandboxEnd::kCpuTime:
    case SandboxEnd::kWallTime:
      return "it took too long";
    case SandboxEnd::kOutput:
      return "it printed too much";
    case SandboxEnd::kMemory:
      return "it took too much memory";
    case SandboxEnd::kFiles:
      return "it wrote too much to files";
    default:
      return "";
  }
}

class PythonTool {
 public:
  PythonTool(Sandbox sandbox, const CodeConfig& config)
      : sandbox_(std::move(sandbox)), config_(config) {}

  Result<ToolResult> Run(const std::string& code, std::int64_t deadline_ms) const {
    const std::chrono::milliseconds time(
        std::max<std::int64_t>(std::min(config_.wall_ms, deadline_ms), 1));
    const SandboxRun run{
        .argv = {config_.python, "-I", "/work/main.py"},
        .files = {{"/work/main.py", code}},
        .input = {},
        .limits = {.cpu_seconds = config_.cpu_seconds,
                   .wall = time,
                   .total = time,
                   .memory_bytes = config_.memory_mb * kBytesOfMegabyte,
                   .disk_bytes = config_.disk_mb * kBytesOfMegabyte,
                   .output_bytes = static_cast<std::size_t>(config_.output_kb) << 10,
                   .processes = config_.processes}};
    BUTTRESS_ASSIGN_OR_RETURN(const SandboxResult result, sandbox_.Run(run));
    if (result.end == SandboxEnd::kStarved)
      return Unavailable(
          "tool python: the machine is too busy to run the program; lower "
          "local.worker.episodes.running");
    ToolResult shown{ReplaceInvalidUtf8(result.output + result.errors)};
    const std::string_view limit = LimitOf(result.end);
    if (!limit.empty()) shown.text += "\nerror: the program was ended: " + std::string(limit);
    shown.failed = !limit.empty() || result.exit_code != 0;
    if (shown.text.empty())
      shown.text = shown.failed ? "error: exit code " + std::to_string(result.exit_code)
                                : "the program printed nothing; print what you want to see";
    return shown;
  }

 private:
  const Sandbox sandbox_;
  const CodeConfig config_;
};

}  // namespace

Result<ToolFunction> MakePythonTool(const RunSettings& run) {
  const CodeConfig& config = run.reward.code;
  BUTTRESS_ASSIGN_OR_RETURN(Sandbox sandbox, Sandbox::Open({config.python, config.read_only}));
  const auto tool = std::make_shared<const PythonTool>(std::move(sandbox), config);
  return ToolFunction([tool](const std::string& code, std::int64_t deadline_ms) {
    return tool->Run(code, deadline_ms);
  });
}

}  // namespace buttress
