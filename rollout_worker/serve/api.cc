#include "rollout_worker/serve/api.h"

#include <absl/strings/match.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "lib/base/net/secret.h"
#include "lib/base/text/digest.h"
#include "rollout_worker/openai/reply.h"
#include "rollout_worker/openai/request.h"
#include "rollout_worker/openai/tokenize.h"
#include "rollout_worker/serve/generation.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr std::size_t kWaitingPosts = 1024;
constexpr std::chrono::milliseconds kLook(200);
constexpr const char* kPosts[] = {"/v1/completions", "/v1/chat/completions", "/tokenize",
                                  "/detokenize"};
constexpr const char* kGets[] = {"/health", "/version", "/metrics", "/v1/models", "/openapi.json"};
constexpr const char* kWeightPosts[] = {"/pause", "/resume", "/collective_rpc",
                                        "/reset_prefix_cache", "/update_weight_version"};
constexpr const char* kWeightGets[] = {"/server_info", "/weight_info"};

bool IsCompletions(std::string_view path) { return path == kPosts[0] || path == kPosts[1]; }

template <std::size_t N>
bool IsOneOf(std::string_view path, const char* const (&paths)[N]) {
  return std::ranges::find(paths, path) != std::end(paths);
}

}  // namespace

Result<std::unique_ptr<ServeApi>> ServeApi::Start(const ServeOptions& options,
                                                  InferenceEngine& engine,
                                                  const ServedModel& model) {
  auto api = std::make_unique<ServeApi>(options, engine, model);
  BUTTRESS_ASSIGN_OR_RETURN(api->port_,
                            ApiPort::Start({.address = options.listen, .what = "the model"},
                                           [raw = api.get()](const std::shared_ptr<ApiCall>& call) {
                                             raw->Answer(call);
                                           }));
  return api;
}

ServeApi::ServeApi(const ServeOptions& options, InferenceEngine& engine, const ServedModel& model)
    : engine_(engine), model_(model), hub_(engine, model.most_open), posts_(kWaitingPosts) {
  if (options.weight_calls) weight_calls_ = std::make_unique<WeightCalls>(engine, hub_, model);
  for (const std::string& key : options.keys) key_digests_.push_back(Sha256Of(key));
  thread_ = std::thread([this] { Run(); });
}

ServeApi::~ServeApi() {
  posts_.Close();
  thread_.join();
  port_.reset();
}

// What is not secret, and what clients ask for before they know a key, needs none.
bool ServeApi::AnswerOpenly(ApiCall& call) {
  if (call.path() == "/health") {
    call.Reply(draining_ ? 503 : 200, "text/plain", "");
  } else if (call.path() == "/metrics") {
    const EngineStats stats = engine_.stats();
    metrics_.running.Set(static_cast<double>(stats.running));
    metrics_.waiting.Set(static_cast<double>(stats.waiting));
    call.Reply(200, "text/plain; version=0.0.4", metrics_.all.Expose());
  } else {
    return false;
  }
  return true;
}

void ServeApi::Answer(const std::shared_ptr<ApiCall>& call) {
  const std::string_view path = call->path();
  const bool weights = IsOneOf(path, kWeightPosts) || IsOneOf(path, kWeightGets);
  const bool gets = IsOneOf(path, kGets) || IsOneOf(path, kWeightGets);
  if (!(gets || IsOneOf(path, kPosts) || weights))
    return Refuse(*call, NotFound(fmt::format("{} is not a path of this server", path)));
  if (weights && weight_calls_ == nullptr)
    return Refuse(*call, NotFound(fmt::format("{} needs a server with --weight-updates", path)));
  if (call->method() != (gets ? "GET" : "POST")) {
    return Refuse(*call,
                  {StatusCode::kUnimplemented,
                   fmt::format("{} {}; expected {}", call->method(), path, gets ? "GET" : "POST")});
  }
  if (AnswerOpenly(*call)) return;
  if (!Admits(*call)) {
    return Refuse(*call, {StatusCode::kUnauthenticated,
                          "the API key is wrong or missing; expected Authorization: Bearer KEY"});
  }
  if (AnswerGet(*call) || (weights && weight_calls_->Answer(call))) return;
  if (draining_ && IsCompletions(path)) return Refuse(*call, Unavailable("the server ends"));
  std::shared_ptr<ApiCall> post = call;
  if (!posts_.Push(post, std::chrono::milliseconds(0)))
    Refuse(*call, ResourceExhausted("too many requests wait; try again later"));
}

void ServeApi::Refuse(ApiCall& call, const Status& status) {
  const bool method = status.code() == StatusCode::kUnimplemented;
  const unsigned code = method ? 405 : HttpCodeOf(status);
  if (code == 429 || code == 503) call.SetHeader("Retry-After", "1");
  if (code != 404) metrics_.CountAnswer(call.path(), code);  // other paths are without bound
  call.Reply(code, kJsonType, ErrorBody(status));
}

bool ServeApi::Admits(const ApiCall& call) const {
  if (key_digests_.empty()) return true;
  const std::string header = call.Header("Authorization");
  if (!absl::StartsWithIgnoreCase(header, "bearer ")) return false;
  const std::string key = header.substr(7);
  return std::ranges::any_of(key_digests_,
                             [&](const std::string& digest) { return IsSecretOf(key, digest); });
}

bool ServeApi::AnswerGet(ApiCall& call) const {
  if (call.path() == "/version") {
    call.Reply(200, kJsonType, ordered_json{{"version", BUTTRESS_VERSION}}.dump());
  } else if (call.path() == "/openapi.json") {
    call.Reply(200, kJsonType, Routes());
  } else if (call.path() == "/v1/models") {
    const ordered_json model = {{"id", model_.name},
                                {"object", "model"},
                                {"created", 0},
                                {"owned_by", "buttress"},
                                {"root", model_.name},
                                {"parent", nullptr},
                                {"max_model_len", model_.max_tokens}};
    call.Reply(200, kJsonType,
               ordered_json{{"object", "list"}, {"data", ordered_json::array({model})}}.dump());
  } else {
    return false;
  }
  return true;
}

std::string ServeApi::Routes() const {
  ordered_json paths = ordered_json::object();
  for (const char* path : kGets) paths[path] = {{"get", ordered_json::object()}};
  for (const char* path : kPosts) paths[path] = {{"post", ordered_json::object()}};
  if (weight_calls_ != nullptr) {
    for (const char* path : kWeightGets) paths[path] = {{"get", ordered_json::object()}};
    for (const char* path : kWeightPosts) paths[path] = {{"post", ordered_json::object()}};
  }
  return ordered_json{{"openapi", "3.1.0"}, {"paths", paths}}.dump();
}

// Texts are encoded here, because the thread of the port must not wait for a long one.
void ServeApi::Run() {
  while (!posts_.closed()) {
    const auto call = posts_.Pop(kLook);
    if (!call) continue;
    if (const Status status = AnswerPost(*call); !status.ok()) Refuse(**call, status);
  }
}

Status ServeApi::AnswerPost(const std::shared_ptr<ApiCall>& call) {
  if (!IsCompletions(call->path())) {
    BUTTRESS_RETURN_IF_ERROR(call->path() == "/tokenize" ? Tokenize(*call) : Detokenize(*call));
    metrics_.CountAnswer(call->path(), 200);
    return OkStatus();
  }
  const bool chat = call->path() == kPosts[1];
  BUTTRESS_ASSIGN_OR_RETURN(OpenAiRequest request,
                            chat ? ParseChat(call->body()) : ParseCompletions(call->body()));
  return Generation::Start(call, std::move(request), model_, metrics_, hub_);
}

Status ServeApi::Tokenize(ApiCall& call) const {
  BUTTRESS_ASSIGN_OR_RETURN(TokenizeRequest request, ParseTokenize(call.body()));
  BUTTRESS_RETURN_IF_ERROR(CheckModelName(request.model, model_.name));
  std::vector<std::int32_t> tokens;
  if (!request.messages.is_null()) {
    BUTTRESS_ASSIGN_OR_RETURN(
        tokens, EncodeChat(model_, request.messages, request.add_generation_prompt, request.tools,
                           request.template_arguments));
  } else if (request.add_special_tokens) {
    BUTTRESS_ASSIGN_OR_RETURN(tokens, model_.encoder.EncodeText(request.prompt));
  } else {
    BUTTRESS_ASSIGN_OR_RETURN(tokens, model_.tokenizer->Encode(request.prompt));
  }
  call.Reply(200, kJsonType,
             ordered_json{{"count", tokens.size()},
                          {"max_model_len", model_.max_tokens},
                          {"tokens", tokens},
                          {"token_strs", nullptr}}
                 .dump());
  return OkStatus();
}

Status ServeApi::Detokenize(ApiCall& call) const {
  BUTTRESS_ASSIGN_OR_RETURN(const DetokenizeRequest request, ParseDetokenize(call.body()));
  BUTTRESS_RETURN_IF_ERROR(CheckModelName(request.model, model_.name));
  const Result<std::string> text = model_.tokenizer->Decode(request.tokens, SpecialTokens::kKeep);
  if (!text.ok()) return InvalidArgument(text.status().message());
  call.Reply(200, kJsonType, ordered_json{{"prompt", *text}}.dump());
  return OkStatus();
}

}  // namespace buttress
