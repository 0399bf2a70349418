#include "rollout_worker/vllm/control.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "rollout_worker/vllm/protocol.h"

namespace buttress {
namespace {

const std::vector<std::vector<std::int32_t>> kCanaryPrompts = {{1, 2, 3, 4},
                                                               {5, 6, 7, 8},
                                                               {9, 10, 11, 12},
                                                               {3, 1, 4, 1},
                                                               {2, 7, 1, 8},
                                                               {12, 6},
                                                               {4, 4, 4, 4},
                                                               {1, 11}};
constexpr std::int32_t kCanaryTokens = 4;
constexpr double kSameLogprob =
    0.05;  // nats: what kernels and bfloat16 may differ by between servers

Result<HttpReply> Checked(Result<HttpReply> reply, const std::string& url) {
  if (reply.ok()) BUTTRESS_RETURN_IF_ERROR(StatusOf(*reply, url));
  return reply;
}

CompletionBody CanaryBody(const ServerInfo& server,
                          const std::vector<std::int32_t>& prompt,
                          const std::string& salt) {
  CompletionBody body;
  body.model = server.model;
  body.prompt_token_ids = prompt;
  body.sampling.temperature = 0;
  body.sampling.max_tokens = kCanaryTokens;
  body.cache_salt = salt;
  body.ignore_eos = true;
  return body;
}

Status ReadCanary(const Result<HttpReply>& reply,
                  std::size_t prompt_tokens,
                  const std::string& url,
                  Canary& canary) {
  const Result<HttpReply> good = Checked(reply, url + "/v1/completions");
  BUTTRESS_RETURN_IF_ERROR(good.status());
  CompletionStream stream(prompt_tokens, kCanaryTokens);
  BUTTRESS_RETURN_IF_ERROR(stream.Read(good->body).Annotate(url));
  BUTTRESS_RETURN_IF_ERROR(stream.Finish().Annotate(url));
  canary.token_ids.push_back(stream.token_ids());
  canary.logprobs.push_back(stream.logprobs());
  return OkStatus();
}

}  // namespace

CanaryDifference Compare(const Canary& a, const Canary& b) {
  CanaryDifference difference;
  std::int64_t count = 0;
  for (std::size_t p = 0; p < std::min(a.token_ids.size(), b.token_ids.size()); ++p) {
    const std::size_t tokens = std::min(a.token_ids[p].size(), b.token_ids[p].size());
    for (std::size_t t = 0; t < tokens; ++t) {
      difference.logprob +=
          std::abs(static_cast<double>(a.logprobs[p][t]) - static_cast<double>(b.logprobs[p][t]));
      ++count;
      if (a.token_ids[p][t] == b.token_ids[p][t]) continue;
      ++difference.parted;
      break;
    }
  }
  if (count > 0) difference.logprob /= static_cast<double>(count);
  return difference;
}

Status CheckSameWeights(const Canary& canary, const Canary& expected, const std::string& what) {
  const CanaryDifference difference = Compare(canary, expected);
  if (difference.logprob <= kSameLogprob && 2 * difference.parted <= canary.token_ids.size())
    return OkStatus();
  return FailedPrecondition(what + ": its log-probs differ by " +
                            std::to_string(difference.logprob) + " nats, and the tokens of " +
                            std::to_string(difference.parted) + " of " +
                            std::to_string(canary.token_ids.size()) +
                            " prompts, from what these weights gave before or on another server");
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

std::vector<Status> VllmControl::PushWeights(const std::vector<std::string>& urls,
                                             const std::string& folder,
                                             InFlight in_flight,
                                             const std::function<void()>& paused) {
  std::vector<Status> statuses(urls.size());
  const auto post = [&](const std::string& path, const std::string& json, bool always) {
    std::vector<HttpRequest> requests;
    std::vector<std::size_t> asked;
    for (std::size_t i = 0; i < urls.size(); ++i) {
      if (!always && !statuses[i].ok()) continue;
      asked.push_back(i);
      requests.push_back(Request(urls[i], path));
      requests.back().json = json;
    }
    std::vector<Result<HttpReply>> replies = http_.Fetch(std::move(requests));
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const Status status = Checked(std::move(replies[i]), urls[asked[i]] + path).status();
      if (statuses[asked[i]].ok()) statuses[asked[i]] = status;
    }
  };
  const nlohmann::json reload = {{"method", "reload_weights"},
                                 {"kwargs", {{"weights_path", folder}}},
                                 {"timeout", config_.control_ms / 1000}};
  post(in_flight == InFlight::kDrain ? "/pause?mode=wait&clear_cache=true"
                                     : "/pause?mode=abort&clear_cache=true",
       "",
       false);
  paused();
  post("/collective_rpc",
       reload.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
       false);
  post("/reset_prefix_cache", "", false);
  post(
      "/resume", "", true);  // whatever went wrong: a server that stays paused is lost to everybody
  return statuses;
}

std::vector<Result<Canary>> VllmControl::MeasureCanary(const std::vector<ServerInfo>& servers,
                                                       const std::string& salt) {
  std::vector<HttpRequest> requests;
  for (const ServerInfo& server : servers) {
    for (const std::vector<std::int32_t>& prompt : kCanaryPrompts) {
      requests.push_back(Request(server.url, "/v1/completions"));
      requests.back().json = CanaryBody(server, prompt, salt).ToJson();
    }
  }
  const std::vector<Result<HttpReply>> replies = http_.Fetch(std::move(requests));
  std::vector<Result<Canary>> canaries;
  for (std::size_t s = 0; s < servers.size(); ++s) {
    Canary canary;
    Status status;
    for (std::size_t p = 0; p < kCanaryPrompts.size() && status.ok(); ++p) {
      status = ReadCanary(
          replies[s * kCanaryPrompts.size() + p], kCanaryPrompts[p].size(), servers[s].url, canary);
    }
    canaries.push_back(status.ok() ? Result<Canary>(std::move(canary)) : Result<Canary>(status));
  }
  return canaries;
}

}  // namespace buttress
