// CheckServers: asks the vLLM servers of a run whether they are there.
#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/net/secret.h"
#include "lib/base/text/bounded_json.h"
#include "lib/checks/machine_checks.h"
#include "lib/http/http_client.h"

namespace buttress {
namespace {

constexpr std::int64_t kMaxKeyBytes = 4096;
constexpr std::int64_t kWholeMs = 10000;

// The names that a server lists; empty if the reply is none of vLLM's.
std::vector<std::string> ModelsIn(const std::string& body) {
  std::vector<std::string> names;
  const auto reply = ParseBoundedJson(body);
  if (!reply.ok() || !reply->is_object() || !reply->contains("data")) return names;
  for (const nlohmann::json& model : (*reply)["data"]) {
    if (model.is_object() && model.contains("id") && model["id"].is_string())
      names.push_back(model["id"].get<std::string>());
  }
  return names;
}

void Judge(const std::string& server, const Result<HttpReply>& reply, const std::string& model,
           Findings& findings) {
  const std::string key = "local.worker.vllm.servers";
  if (!reply.ok()) {
    return findings.Error(key, fmt::format("{} does not answer: {}; start it, or take it out",
                                           server, reply.status().message()));
  }
  if (reply->status == 401 || reply->status == 403) {
    return findings.Error(key, server + " refuses the key of local.worker.vllm.api_key_file");
  }
  const std::vector<std::string> names = ModelsIn(reply->body);
  if (reply->status != 200 || names.empty()) {
    return findings.Error(key, fmt::format("{}/v1/models answers {} and names no model; expected a "
                                           "vLLM server",
                                           server, reply->status));
  }
  if (!model.empty() && std::ranges::find(names, model) == names.end()) {
    return findings.Error(
        "local.worker.vllm.model",
        fmt::format("{} does not serve {}; it serves {}", server, model, names.front()));
  }
  findings.Ok(key, fmt::format("{} serves {}", server, model.empty() ? names.front() : model));
}

}  // namespace

void CheckServers(const VllmConfig& vllm, Findings& findings) {
  std::string bearer;
  if (!vllm.api_key_file.empty()) {
    auto text = ReadSecretFile(vllm.api_key_file, kMaxKeyBytes);
    if (!text.ok())
      return findings.Error("local.worker.vllm.api_key_file", text.status().message());
    bearer = text->substr(0, text->find_last_not_of(" \n\r\t") + 1);
  }
  std::vector<HttpRequest> requests;
  for (const std::string& server : vllm.servers) {
    HttpRequest request;
    request.url = server + "/v1/models";
    request.bearer = bearer;
    request.deadlines.connect_ms = vllm.connect_ms;
    request.deadlines.whole_ms = kWholeMs;
    requests.push_back(std::move(request));
  }
  HttpClient client;
  const auto replies = client.Fetch(std::move(requests));
  for (std::size_t i = 0; i < replies.size(); ++i)
    Judge(vllm.servers[i], replies[i], vllm.model, findings);
}

}  // namespace buttress
