// Rules of `local`, and between it and the run.
#include <algorithm>
#include <string>
#include <utility>

#include "lib/config/rules.h"

namespace buttress {
namespace {

void CheckPrograms(const LocalSettings& local, Rules& rules) {
  rules.Require(!local.out.empty(), "local.out", local.out, "name the folder of the run");
  rules.Require(local.coordinator.payload_segment_bytes >= 1,
                "local.coordinator.payload_segment_bytes", local.coordinator.payload_segment_bytes,
                "at least 1");
  rules.OneOf("local.worker.device", local.worker.device, {"cpu", "cuda"});
  rules.OneOf("local.worker.engine", local.worker.engine, {"embedded", "vllm"});
  rules.OneOf("local.worker.weights", local.worker.weights, {"shared", "grpc"});
  rules.Require(local.worker.threads >= 1, "local.worker.threads", local.worker.threads,
                "at least 1");
  rules.Require(local.worker.max_running >= 1, "local.worker.max_running", local.worker.max_running,
                "at least 1");
  rules.Require(local.worker.kv_cache_tokens >= 1, "local.worker.kv_cache_tokens",
                local.worker.kv_cache_tokens, "at least 1");
  rules.OneOf("local.learner.collective", local.learner.collective, {"local", "mpi", "nccl"});
  rules.OneOf("local.learner.device", local.learner.device, {"cpu", "cuda"});
  const bool on_gpu = local.learner.device == "cuda";
  rules.Require(
      local.learner.collective == "local" || (local.learner.collective == "nccl") == on_gpu,
      "local.learner.collective", local.learner.collective,
      on_gpu ? "sums in CPU memory; with device: cuda use nccl, or local for one rank"
             : "sums in GPU memory; with device: cpu use mpi, or local for one rank");
  rules.Require(local.learner.threads >= 1, "local.learner.threads", local.learner.threads,
                "at least 1");
  rules.Require(local.learner.micro_batch_tokens >= 1, "local.learner.micro_batch_tokens",
                local.learner.micro_batch_tokens, "at least 1");
  rules.Require(local.learner.logprob_chunk_tokens >= 1, "local.learner.logprob_chunk_tokens",
                local.learner.logprob_chunk_tokens, "at least 1");
  rules.Require(local.learner.collective_timeout_ms >= 1000, "local.learner.collective_timeout_ms",
                local.learner.collective_timeout_ms, "at least 1000");
  rules.Require(local.launch.workers >= 1, "local.launch.workers", local.launch.workers,
                "at least 1");
  rules.Require(local.launch.learner_ranks >= 1, "local.launch.learner_ranks",
                local.launch.learner_ranks, "at least 1");
  rules.Require(local.launch.max_restarts >= 0, "local.launch.max_restarts",
                local.launch.max_restarts, "0 or more");
  rules.Require(
      !(local.learner.collective == "local" && local.launch.learner_ranks > 1),
      "local.learner.collective", local.learner.collective,
      "is for one rank, local.launch.learner_ranks asks for more; use mpi, or nccl where GPUs are");
}

bool OnLoopback(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  const bool number = host.find_first_not_of("0123456789.") == std::string::npos;
  return (number && host.starts_with("127.")) || address.starts_with("localhost:") ||
         address.starts_with("[::1]:");
}

void CheckSecurity(const LocalSettings& local, Rules& rules) {
  const SecurityConfig& security = local.security;
  const std::pair<const char*, const std::string&> files[] = {{"certificate", security.certificate},
                                                              {"key", security.key},
                                                              {"ca", security.ca},
                                                              {"token_file", security.token_file}};
  const bool any =
      std::ranges::any_of(files, [](const auto& file) { return !file.second.empty(); });
  for (const auto& [name, path] : files) {
    rules.Require(path.empty() != any, std::string("local.security.") + name, path,
                  "certificate, key, ca and token_file belong together: set all four, or none");
  }
  rules.Require(!(any && security.insecure), "local.security.insecure", security.insecure,
                "certificate and token are set as well; take out one or the other");
  if (any || security.insecure) return;
  const std::pair<const char*, const std::string&> listeners[] = {
      {"coordinator.listen", local.coordinator.listen},
      {"coordinator.metrics", local.coordinator.metrics},
      {"worker.listen", local.worker.listen},
      {"worker.metrics", local.worker.metrics},
      {"learner.listen", local.learner.listen},
      {"learner.metrics", local.learner.metrics}};
  for (const auto& [name, address] : listeners) {
    rules.Require(
        OnLoopback(address), std::string("local.") + name, address,
        "other machines reach it, and local.security names no certificate and token; "
        "deploy/make-certs.sh makes them "
        "(local.security.insecure: true does without, for a network where you trust everybody)");
  }
}

void CheckAlarms(const AlarmConfig& alarms, Rules& rules) {
  const std::string section = "local.learner.alarms.";
  rules.Require(alarms.entropy_floor >= 0, section + "entropy_floor", alarms.entropy_floor,
                "0 (off) or more");
  rules.Require(alarms.entropy_steps >= 0, section + "entropy_steps", alarms.entropy_steps,
                "0 or more");
  rules.Require(alarms.entropy_fall > 0 && alarms.entropy_fall <= 1, section + "entropy_fall",
                alarms.entropy_fall, "in (0, 1]; 1 = off");
  rules.Require(alarms.trend_steps >= 3 && alarms.trend_steps <= 100000, section + "trend_steps",
                alarms.trend_steps, "between 3 and 100000");
  rules.Require(alarms.kl_limit > 0, section + "kl_limit", alarms.kl_limit, "above 0");
  rules.Require(alarms.distinct_floor >= 0 && alarms.distinct_floor <= 1,
                section + "distinct_floor", alarms.distinct_floor, "in [0, 1]; 0 = off");
}

void CheckVllm(const RunConfig& config, Rules& rules) {
  if (config.local.worker.engine != "vllm") return;
  const VllmConfig& vllm = config.local.worker.vllm;
  rules.Require(!vllm.servers.empty(), "local.worker.vllm.servers", std::string("[]"),
                "name a server or more: [http://host:8000]");
  for (const std::string& server : vllm.servers) {
    const bool http = server.starts_with("http://") || server.starts_with("https://");
    rules.Require(http && !server.ends_with("/"), "local.worker.vllm.servers", server,
                  "expected http://host:port or https://host:port, without / at the end");
    rules.Require(std::count(vllm.servers.begin(), vllm.servers.end(), server) == 1,
                  "local.worker.vllm.servers", server, "stands twice; name each server once");
  }
  rules.Require(vllm.concurrency >= 0 && vllm.concurrency <= 65536, "local.worker.vllm.concurrency",
                vllm.concurrency, "0 (the server's own bound) to 65536");
  rules.Require(vllm.attempts >= 1, "local.worker.vllm.attempts", vllm.attempts, "at least 1");
  rules.Require(vllm.connect_ms >= 1, "local.worker.vllm.connect_ms", vllm.connect_ms,
                "at least 1");
  rules.Require(vllm.first_byte_ms >= 1, "local.worker.vllm.first_byte_ms", vllm.first_byte_ms,
                "at least 1");
  rules.Require(vllm.idle_ms >= 1, "local.worker.vllm.idle_ms", vllm.idle_ms, "at least 1");
  rules.Require(vllm.health_interval_ms >= 1, "local.worker.vllm.health_interval_ms",
                vllm.health_interval_ms, "at least 1");
  rules.Require(vllm.health_timeout_ms >= 1, "local.worker.vllm.health_timeout_ms",
                vllm.health_timeout_ms, "at least 1");
  rules.Require(vllm.control_ms >= 1000, "local.worker.vllm.control_ms", vllm.control_ms,
                "at least 1000");
  rules.Require(vllm.canary_nats >= 0, "local.worker.vllm.canary_nats", vllm.canary_nats,
                "at least 0");
  rules.Require(vllm.revive_ms >= 1, "local.worker.vllm.revive_ms", vllm.revive_ms, "at least 1");
  rules.Require(config.run.sampling.temperature <= 2, "run.sampling.temperature",
                config.run.sampling.temperature, "at most 2 with local.worker.engine: vllm");
}

}  // namespace

void CheckLocal(const RunConfig& config, Rules& rules) {
  CheckPrograms(config.local, rules);
  CheckSecurity(config.local, rules);
  CheckAlarms(config.local.learner.alarms, rules);
  CheckVllm(config, rules);
}

}  // namespace buttress
