#include "rollout_worker/vllm/control.h"

#include <absl/strings/ascii.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "lib/base/net/secret.h"
#include "rollout_worker/vllm/protocol.h"

namespace buttress {
namespace {

constexpr std::int64_t kMaxKeyBytes = 4096;

Result<HttpReply> Checked(Result<HttpReply> reply, const std::string& url) {
  if (reply.ok()) BUTTRESS_RETURN_IF_ERROR(StatusOf(*reply, url));
  return reply;
}

// Returns the status of a control call, which may answer {"success": false} with HTTP 200.
Status ControlStatus(Result<HttpReply> reply, const std::string& url) {
  BUTTRESS_ASSIGN_OR_RETURN(const HttpReply good, Checked(std::move(reply), url));
  const nlohmann::json answer = nlohmann::json::parse(good.body, nullptr, false);
  const bool failed =
      answer.is_object() && answer.contains("success") && answer["success"] == false;
  return failed ? Unavailable(url + ": answered success = false") : OkStatus();
}

CompletionBody CanaryBody(const ServerInfo& server, const Canary& canary, const std::string& salt) {
  CompletionBody body;
  body.model = server.model;
  body.prompt_token_ids = canary.prompt_token_ids;
  body.sampling.temperature = 0;
  body.sampling.max_tokens = static_cast<std::int32_t>(canary.token_ids.size());
  body.cache_salt = salt;
  body.ignore_eos = true;
  return body;
}

Result<Canary> ReadCanary(const Result<HttpReply>& reply, const Canary& asked,
                          const std::string& url) {
  const Result<HttpReply> good = Checked(reply, url + "/v1/completions");
  BUTTRESS_RETURN_IF_ERROR(good.status());
  CompletionStream stream(asked.prompt_token_ids.size(),
                          static_cast<std::int32_t>(asked.token_ids.size()));
  BUTTRESS_RETURN_IF_ERROR(stream.Read(good->body).Annotate(url));
  BUTTRESS_RETURN_IF_ERROR(stream.Finish().Annotate(url));
  return Canary{asked.prompt_token_ids, stream.token_ids(), stream.logprobs()};
}

}  // namespace

Result<std::string> ReadApiKey(const std::string& path) {
  if (path.empty()) return std::string();
  BUTTRESS_ASSIGN_OR_RETURN(std::string key, ReadSecretFile(path, kMaxKeyBytes));
  key.resize(key.find_last_not_of("\n\r ") + 1);
  if (key.empty() || !std::ranges::all_of(key, absl::ascii_isgraph))
    return InvalidArgument(path + ": expected one line with the API key");
  return key;
}

HttpRequest VllmControl::Request(const std::string& url, const std::string& path) const {
  HttpRequest request;
  request.url = url + path;
  request.bearer = api_key_;
  request.deadlines = {config_.connect_ms, config_.control_ms, config_.idle_ms};
  return request;
}

Result<std::string> VllmControl::Get(const std::string& url, const std::string& path) {
  BUTTRESS_ASSIGN_OR_RETURN(HttpReply reply,
                            Checked(std::move(http_.Fetch({Request(url, path)})[0]), url + path));
  return std::move(reply.body);
}

Status VllmControl::Post(const std::string& url, const std::string& path, const std::string& json) {
  HttpRequest request = Request(url, path);
  request.json = json;
  return ControlStatus(std::move(http_.Fetch({std::move(request)})[0]), url + path);
}

// Native transfers tag the weights as they end. vLLM keeps no tag of adapters.
Status VllmControl::Tag(const std::string& url, const std::string& version, VllmWeights way) {
  if (way == VllmWeights::kLora) return OkStatus();
  if (way == VllmWeights::kFile) {
    const nlohmann::json tag = {{"new_version", version}};
    BUTTRESS_RETURN_IF_ERROR(Post(url, "/update_weight_version", tag.dump()));
  }
  BUTTRESS_ASSIGN_OR_RETURN(const std::string shown, Get(url, "/weight_info"));
  const nlohmann::json answer = nlohmann::json::parse(shown, nullptr, false);
  if (answer.is_object() && answer.value("weight_version", nlohmann::json()) == version)
    return OkStatus();
  return Unavailable(url + "/weight_info: " + shown.substr(0, 100) + "; expected the version " +
                     version);
}

Status VllmControl::PushWeights(const ServerInfo& server, const WeightPush& push,
                                const std::function<void()>& paused) {
  const std::string& url = server.url;
  const auto post = [&](const std::string& path, const std::string& json) {
    return Post(url, path, json);
  };
  WeightWay& way = *ways_.at(push.way);
  BUTTRESS_RETURN_IF_ERROR(
      way.Join({server.transfer, server.started_at_ms, GpusOfServer(config_, url)}, post));
  // The scheduler of a server that wakes up in parts stays paused until the last.
  if (server.asleep) BUTTRESS_RETURN_IF_ERROR(Post(url, "/wake_up?tags=weights", ""));
  Status status = Post(url,
                       push.keep_running ? "/pause?mode=keep&clear_cache=false"
                                         : "/pause?mode=abort&clear_cache=true",
                       "");
  if (status.ok()) {
    paused();
    status = way.Send(push.folder, push.version, post);
  }
  if (status.ok() && server.asleep) status = Post(url, "/wake_up?tags=kv_cache", "");
  if (status.ok() && server.transfer.versions) status = Tag(url, push.version, push.way);
  // The salt of requests keeps what the old weights have cached from those under the new ones. A
  // sleep clears the cache.
  if (status.ok() && !push.keep_running && !server.asleep)
    status = Post(url, "/reset_prefix_cache", "");
  // It answers no more, or has no memory to sample with.
  if (IsStuckInNccl(push.way, status) || (server.asleep && !status.ok())) return status;
  const Status resumed = Post(url, "/resume", "");  // a paused server is useless to everyone
  return status.ok() ? resumed : status;
}

Status VllmControl::Sleep(const std::string& url, bool keeps_weights) {
  return Post(url, keeps_weights ? "/sleep?level=1&mode=abort" : "/sleep?level=2&mode=abort", "");
}

Status VllmControl::WakeUp(const std::string& url) { return Post(url, "/wake_up", ""); }

Result<Canaries> VllmControl::MeasureCanaries(const ServerInfo& server, const Canaries& canaries,
                                              const std::string& salt) {
  std::vector<HttpRequest> requests;
  for (const Canary& canary : canaries) {
    requests.push_back(Request(server.url, "/v1/completions"));
    requests.back().json = CanaryBody(server, canary, salt).ToJson();
  }
  const std::vector<Result<HttpReply>> replies = http_.Fetch(std::move(requests));
  Canaries shown;
  for (std::size_t c = 0; c < canaries.size(); ++c) {
    BUTTRESS_ASSIGN_OR_RETURN(Canary canary, ReadCanary(replies[c], canaries[c], server.url));
    shown.push_back(std::move(canary));
  }
  return shown;
}

}  // namespace buttress
