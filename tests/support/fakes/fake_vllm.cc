// The program vllm as `buttress launch` starts it: a ScriptedVllm with the settings of its command
// line and environment, which it prints, as it does the calls that it gets to control it, and a
// process of its own that ends with nothing but SIGKILL, as vLLM's engine may.
#include <fmt/core.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/fakes/scripted_vllm.h"

namespace buttress {
namespace {

const std::set<std::string> kSwitches = {"--enforce-eager", "--enable-lora", "--enable-sleep-mode"};
const std::set<std::string> kFlags = {"--served-model-name",
                                      "--host",
                                      "--port",
                                      "--generation-config",
                                      "--logprobs-mode",
                                      "--dtype",
                                      "--max-model-len",
                                      "--api-server-count",
                                      "--max-lora-rank",
                                      "--tensor-parallel-size",
                                      "--gpu-memory-utilization",
                                      "--weight-transfer-config",
                                      "--stream-interval",
                                      "--seed"};

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

void StartEngine() {
  if (::fork() != 0) return;
  ::setsid();
  ::prctl(PR_SET_NAME, "fake_engine");
  ::signal(SIGTERM, SIG_IGN);
  while (true) ::pause();
}

int Serve(int argc, char** argv) {
  std::map<std::string, std::string> flags;
  for (int i = 3; i < argc; ++i) {
    const std::string name = argv[i];
    const bool valued = kFlags.contains(name) && i + 1 < argc;
    if (!valued && !kSwitches.contains(name)) {
      fmt::print(stderr, "vllm: error: unrecognized arguments: {}\n", name);
      return 2;
    }
    flags[name] = valued ? argv[++i] : "on";
  }
  fmt::print("devices [{}] model {}\n", Environment("CUDA_VISIBLE_DEVICES"), argv[2]);
  std::fflush(stdout);
  const bool sleeps = flags.contains("--enable-sleep-mode");
  if (sleeps && Environment("CUDA_VISIBLE_DEVICES").empty()) {
    fmt::print(stderr, "ValueError: Sleep mode is not supported on current platform.\n");
    return 1;
  }
  StartEngine();
  ScriptedVllm::Settings settings;
  settings.model = flags["--served-model-name"];
  settings.api_key = Environment("VLLM_API_KEY");
  settings.logprobs_mode = flags["--logprobs-mode"];
  settings.generation_config = flags["--generation-config"];
  settings.processed = settings.logprobs_mode == "processed_logprobs";
  settings.lora =
      flags.contains("--enable-lora") && Environment("VLLM_ALLOW_RUNTIME_LORA_UPDATING") == "1";
  settings.dev_mode = Environment("VLLM_SERVER_DEV_MODE") == "1";
  settings.max_model_len = std::atoll(flags["--max-model-len"].c_str());
  settings.dtype = "torch." + flags["--dtype"];
  settings.seed = std::atoll(flags["--seed"].c_str());
  settings.sleep_mode = sleeps;
  settings.port = std::atoi(flags["--port"].c_str());
  settings.process = ::getpid();
  const ScriptedVllm server(settings);
  for (std::size_t printed = 0;; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
    const std::vector<std::string> calls = server.control_calls();
    for (; printed < calls.size(); ++printed) fmt::print("POST {}\n", calls[printed]);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) {
  if (argc < 3 || std::string(argv[1]) != "serve") return 2;
  return buttress::Serve(argc, argv);
}
