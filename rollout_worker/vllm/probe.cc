// VllmControl::Probe, which refuses servers that would not sample as requested.
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "lib/base/report/log.h"
#include "rollout_worker/vllm/control.h"
#include "rollout_worker/vllm/health_poller.h"
#include "rollout_worker/vllm/protocol.h"

namespace buttress {
namespace {

using Json = nlohmann::json;

constexpr const char* kRoutes[] = {"/v1/completions", "/pause", "/resume", "/collective_rpc",
                                   "/reset_prefix_cache"};
constexpr const char* kNativeRoutes[] = {"/init_weight_transfer_engine", "/start_weight_update",
                                         "/update_weights", "/finish_weight_update",
                                         "/get_world_size"};
constexpr const char* kSleepRoutes[] = {"/sleep", "/wake_up", "/is_sleeping"};
constexpr const char* kStreamInterval =
    "/components/schemas/CompletionRequest/properties/stream_interval";
constexpr std::int64_t kDefaultConcurrency =
    256;  // if neither the settings nor the server state it
constexpr std::int32_t kProbeTokens = 8;
constexpr double kCertainNats = 1e-3;
constexpr int kTiesMax = 4;

// Returns the member at a JSON pointer, or null.
Json Find(const Json& json, const std::string& pointer) {
  const Json::json_pointer path(pointer);
  return json.contains(path) ? json[path] : Json();
}

// Before vLLM 0.32 a transfer by NCCL begins with torch's TCPStore, and one by ipc has a handle for
// each tensor. A version that is no number is of a build from source.
bool TakesTransfers(const std::string& version) {
  std::array<int, 2> parts = {};
  return std::sscanf(version.c_str(), "%d.%d", parts.data(), &parts[1]) != 2 ||
         parts >= std::array<int, 2>{0, 32};
}

Status NotVllm(const std::string& url, const std::string& what) {
  return FailedPrecondition(fmt::format(
      "{} {}; expected a vLLM server: check the address, and what listens there", url, what));
}

Status Lacks(const std::string& url, const std::string& what) {
  return FailedPrecondition(url + ": " + what + "; start the server with " + kServerFlags);
}

// Whether a log-prob with top_k = 1 is of the distribution that is sampled from: of a certain
// token, or of one of a few whose logits tie, as they may in bfloat16. The model gives it less.
bool IsOfTop1(float logprob) {
  for (int ties = 1; ties <= kTiesMax; ++ties) {
    if (std::abs(static_cast<double>(logprob) + std::log(ties)) < kCertainNats) return true;
  }
  return false;
}

}  // namespace

Result<ServerInfo> VllmControl::Probe(const std::string& url) {
  ServerInfo info;
  info.url = url;
  const Result<HttpReply> health = std::move(http_.Fetch({HealthRequest(config_, url)})[0]);
  if (health.ok() && health->status == 404) return NotVllm(url, "has no /health");
  BUTTRESS_RETURN_IF_ERROR(HealthOf(health, url));
  const Result<std::string> version = Get(url, "/version");
  if (version.status().code() == StatusCode::kNotFound) return NotVllm(url, "has no /version");
  BUTTRESS_RETURN_IF_ERROR(version.status());
  const Json parsed = Json::parse(*version, nullptr, false);
  if (!Find(parsed, "/version").is_string())
    return NotVllm(url, "answers /version with " + ErrorText(*version));
  info.version = Find(parsed, "/version").get<std::string>();
  BUTTRESS_RETURN_IF_ERROR(ReadRoutes(info));
  BUTTRESS_RETURN_IF_ERROR(ReadModels(info));
  BUTTRESS_RETURN_IF_ERROR(ReadServerInfo(info));
  BUTTRESS_RETURN_IF_ERROR(ReadWorldSize(info));
  info.started_at_ms = ReadStart(url);
  BUTTRESS_RETURN_IF_ERROR(ReadSleep(info));
  if (info.asleep) return info;
  // A paused server would not answer the completion below.
  BUTTRESS_RETURN_IF_ERROR(Post(url, "/resume", ""));
  BUTTRESS_RETURN_IF_ERROR(CheckProcessedLogprobs(info));
  return info;
}

Status VllmControl::ReadRoutes(ServerInfo& info) {
  const Result<std::string> document = Get(info.url, "/openapi.json");
  if (document.status().code() == StatusCode::kNotFound) {
    Log(kWarn,
        "the vLLM server does not list its routes (/openapi.json); the first weight update will "
        "show "
        "whether it has them",
        {{"server", info.url}});
    return OkStatus();
  }
  BUTTRESS_RETURN_IF_ERROR(document.status());
  const Json parsed = Json::parse(*document, nullptr, false);
  const Json paths = Find(parsed, "/paths");
  if (!paths.is_object()) return FailedPrecondition(info.url + "/openapi.json has no paths");
  for (const char* route : kRoutes) {
    if (!paths.contains(route)) return Lacks(info.url, std::string("has no route ") + route);
  }
  for (const char* route : kSleepRoutes) {
    if (!config_.launch.colocate || paths.contains(route)) continue;
    return FailedPrecondition(fmt::format(
        "{}: local.worker.vllm.launch.colocate, and the server has no route {}; install vLLM 0.32 "
        "or newer",
        info.url, route));
  }
  info.takes_stream_interval = Find(parsed, kStreamInterval).is_object();
  info.transfer.native =
      TakesTransfers(info.version) &&
      std::ranges::all_of(kNativeRoutes, [&](const char* route) { return paths.contains(route); });
  info.transfer.versions =
      paths.contains("/weight_info") && paths.contains("/update_weight_version");
  return OkStatus();
}

Status VllmControl::ReadWorldSize(ServerInfo& info) {
  if (!info.transfer.native) return OkStatus();
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, Get(info.url, "/get_world_size"));
  const Json size = Find(Json::parse(text, nullptr, false), "/world_size");
  if (size.is_number_integer()) info.transfer.world_size = size.get<std::int64_t>();
  return OkStatus();
}

// The weights of a server that sleeps were those of a worker before this one, which has probed it.
Status VllmControl::ReadSleep(ServerInfo& info) {
  if (!config_.launch.colocate) return OkStatus();
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, Get(info.url, "/is_sleeping"));
  info.asleep = Find(Json::parse(text, nullptr, false), "/is_sleeping") == true;
  return OkStatus();
}

Status VllmControl::ReadModels(ServerInfo& info) {
  BUTTRESS_ASSIGN_OR_RETURN(const std::string text, Get(info.url, "/v1/models"));
  const Json models = Find(Json::parse(text, nullptr, false), "/data");
  if (!models.is_array()) return FailedPrecondition(info.url + "/v1/models has no data");
  std::string served;
  for (const Json& model : models) {
    const Json id = Find(model, "/id");
    const Json length = Find(model, "/max_model_len");
    if (!id.is_string() || !length.is_number_integer()) continue;
    served += " " + id.get<std::string>();
    if (!config_.model.empty() && id != config_.model) continue;
    info.model = id.get<std::string>();
    info.max_model_len = length.get<std::int64_t>();
    break;
  }
  if (info.model.empty()) {
    return FailedPrecondition(
        fmt::format("{}: local.worker.vllm.model = {} is not served; it serves:{}", info.url,
                    config_.model, served));
  }
  if (info.max_model_len < 2 * kProbeTokens) {
    return FailedPrecondition(fmt::format("{}: max_model_len = {}; expected at least {}", info.url,
                                          info.max_model_len, 2 * kProbeTokens));
  }
  return OkStatus();
}

Status VllmControl::ReadServerInfo(ServerInfo& info) {
  const Result<std::string> text = Get(info.url, "/server_info?config_format=json");
  if (text.status().code() == StatusCode::kNotFound)
    return Lacks(info.url, "does not report its settings (/server_info)");
  BUTTRESS_RETURN_IF_ERROR(text.status());
  const Json config = Find(Json::parse(*text, nullptr, false), "/vllm_config");
  const Json generation = Find(config, "/model_config/generation_config");
  if (generation != "vllm")
    return Lacks(info.url, fmt::format("applies its own generation config (generation_config = {})",
                                       generation.dump()));
  const Json mode = Find(config, "/model_config/logprobs_mode");
  if (mode != "processed_logprobs") return Lacks(info.url, "logprobs_mode = " + mode.dump());
  const Json sequences = Find(config, "/scheduler_config/max_num_seqs");
  const std::int64_t limit = sequences.is_number_integer()
                                 ? std::max<std::int64_t>(1, sequences.get<std::int64_t>())
                                 : kDefaultConcurrency;
  info.float32 = Find(config, "/model_config/dtype") == "torch.float32";
  const Json backend = Find(config, "/weight_transfer_config/backend");
  if (backend.is_string()) info.transfer.backend = backend.get<std::string>();
  const Json pickles =
      Find(Json::parse(*text, nullptr, false), "/vllm_env/VLLM_ALLOW_INSECURE_SERIALIZATION");
  info.transfer.unpickles = pickles == true;
  if (config_.launch.colocate && Find(config, "/model_config/enable_sleep_mode") != true)
    return FailedPrecondition(info.url +
                              ": local.worker.vllm.launch.colocate, and the server was "
                              "started without --enable-sleep-mode");
  const Json seed = Find(config, "/model_config/seed");
  if (seed.is_number_integer()) info.seed = seed.get<std::int64_t>();
  info.concurrency = config_.concurrency > 0 ? std::min(config_.concurrency, limit) : limit;
  return OkStatus();
}

// Reads process_start_time_seconds of /metrics; 0 if it is not there, as with several API servers.
std::int64_t VllmControl::ReadStart(const std::string& url) {
  const Result<std::string> metrics = Get(url, "/metrics");
  if (!metrics.ok()) return 0;
  const std::string name = "\nprocess_start_time_seconds ";
  const std::size_t place = ("\n" + *metrics).find(name);
  if (place == std::string::npos) return 0;
  const double seconds = std::strtod(metrics->c_str() + place + name.size() - 1, nullptr);
  return std::isfinite(seconds) ? std::llround(seconds * 1000) : 0;
}

// With top_k = 1 the sampled token is certain under the distribution that is sampled from.
Status VllmControl::CheckProcessedLogprobs(const ServerInfo& info) {
  CompletionBody body;
  body.model = info.model;
  body.prompt_token_ids = {1, 2, 3, 4};
  body.sampling.top_k = 1;
  body.sampling.max_tokens = kProbeTokens;
  body.cache_salt = "probe";
  body.ignore_eos = true;
  HttpRequest request = Request(info.url, "/v1/completions");
  request.json = body.ToJson();
  const Result<HttpReply> reply = std::move(http_.Fetch({std::move(request)})[0]);
  if (!reply.ok()) return reply.status();
  BUTTRESS_RETURN_IF_ERROR(StatusOf(*reply, info.url + "/v1/completions"));
  CompletionStream stream(body.prompt_token_ids.size(), kProbeTokens);
  BUTTRESS_RETURN_IF_ERROR(stream.Read(reply->body).Annotate(info.url));
  BUTTRESS_RETURN_IF_ERROR(stream.Finish().Annotate(info.url));
  const auto other = std::ranges::find_if_not(stream.logprobs(), IsOfTop1);
  if (other == stream.logprobs().end()) return OkStatus();
  return Lacks(info.url,
               fmt::format("returns log-probs of another distribution than it samples from "
                           "({} for a certain token, expected 0)",
                           *other));
}

}  // namespace buttress
