#include "tests/support/scripted_vllm.h"

#include "lib/base/random.h"
#include "tests/support/patience.h"

namespace buttress {
namespace {

using Json = nlohmann::json;

constexpr std::chrono::milliseconds kLook(5);
constexpr std::size_t kTokens = 5;  // of a completion that is not cut
constexpr std::size_t kBeforeFault = 2;

std::int32_t TokenAt(const std::string& weights, std::size_t position) {
  return static_cast<std::int32_t>(10 + MixSeed(HashText(weights), position) % 40);
}

double LogprobAt(const std::string& weights, std::size_t position) {
  return -0.001 - static_cast<double>(MixSeed(HashText(weights), position + 1000) % 1000) / 1000;
}

Json ChoiceOf(const std::vector<std::int32_t>& ids, const std::vector<double>& logprobs,
              const char* finish) {
  const Json finish_json = finish == nullptr ? Json() : Json(finish);
  return {{"index", 0},
          {"text", "x"},
          {"finish_reason", finish_json},
          {"stop_reason", nullptr},
          {"token_ids", ids},
          {"prompt_token_ids", nullptr},
          {"logprobs",
           {{"token_logprobs", logprobs}, {"tokens", Json::array()}, {"top_logprobs", nullptr}}}};
}

std::string Event(const Json& choices, const Json& usage = Json()) {
  return "data: " +
         Json{{"id", "cmpl-1"},
              {"object", "text_completion"},
              {"choices", choices},
              {"usage", usage}}
             .dump() +
         "\n\n";
}

bool SendBytewise(ScriptedConnection& connection, const std::string& text) {
  for (const char byte : text) {
    if (!connection.SendChunk(std::string(1, byte))) return false;
  }
  return true;
}

}  // namespace

ScriptedVllm::ScriptedVllm(Settings settings)
    : settings_(std::move(settings)),
      server_([this](const ScriptedRequest& request, ScriptedConnection& connection) {
        Handle(request, connection);
      }) {}

void ScriptedVllm::Stop() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    changed_.NotifyAll();
  }
  server_.Stop();
}

void ScriptedVllm::Restart() {
  {
    MutexLock lock(mutex_);
    stopped_ = false;
    paused_ = false;
    weights_ = "after a restart";
  }
  server_.Restart();
}

void ScriptedVllm::FailHealth(HealthFault fault) {
  MutexLock lock(mutex_);
  health_fault_ = fault;
  changed_.NotifyAll();
}

void ScriptedVllm::Fail(std::vector<Fault> faults) {
  MutexLock lock(mutex_);
  faults_.assign(faults.begin(), faults.end());
}

void ScriptedVllm::FailReloads(int count) {
  MutexLock lock(mutex_);
  fail_reloads_ = count;
}

void ScriptedVllm::IgnoreReloads(bool ignore) {
  MutexLock lock(mutex_);
  ignore_reloads_ = ignore;
}

void ScriptedVllm::ShiftLogprobs(double nats) {
  MutexLock lock(mutex_);
  shift_ = nats;
}

void ScriptedVllm::ForgetWeights() {
  MutexLock lock(mutex_);
  weights_ = "after a restart";
}

bool ScriptedVllm::WaitForCompletions(std::size_t count) {
  MutexLock lock(mutex_);
  return changed_.WaitFor(mutex_, kPatience,
                          [&]() REQUIRES(mutex_) { return completions_.size() >= count; });
}

bool ScriptedVllm::WaitForLeft(std::size_t count) {
  MutexLock lock(mutex_);
  return changed_.WaitFor(mutex_, kPatience, [&]() REQUIRES(mutex_) { return left_ >= count; });
}

std::vector<Json> ScriptedVllm::completions() const {
  MutexLock lock(mutex_);
  return completions_;
}

std::vector<std::string> ScriptedVllm::request_ids() const {
  MutexLock lock(mutex_);
  return request_ids_;
}

std::vector<std::string> ScriptedVllm::control_calls() const {
  MutexLock lock(mutex_);
  return control_calls_;
}

std::string ScriptedVllm::weights() const {
  MutexLock lock(mutex_);
  return weights_;
}

std::vector<std::int32_t> ScriptedVllm::Tokens(const std::string& weights, std::size_t begin,
                                               std::size_t end) {
  std::vector<std::int32_t> tokens;
  for (std::size_t position = begin; position < end; ++position)
    tokens.push_back(TokenAt(weights, position));
  return tokens;
}

std::vector<Canary> ScriptedVllm::Canaries(const std::string& weights) {
  std::vector<Canary> canaries;
  for (std::size_t prompt = 1; prompt <= 4; ++prompt) {
    Canary canary;
    canary.prompt_token_ids.assign(prompt, 5);
    canary.token_ids = Tokens(weights, prompt, prompt + 3);
    for (std::size_t i = 0; i < 3; ++i)
      canary.logprobs.push_back(static_cast<float>(LogprobAt(weights, prompt + i)));
    canaries.push_back(std::move(canary));
  }
  return canaries;
}

void ScriptedVllm::Handle(const ScriptedRequest& request, ScriptedConnection& connection) {
  const auto key = request.headers.find("authorization");
  const std::string given = key == request.headers.end() ? "" : key->second;
  if (!settings_.api_key.empty() && request.target.starts_with("/v1") &&
      given != "Bearer " + settings_.api_key) {
    return connection.Reply(401, R"({"error":"Unauthorized"})");
  }
  if (!settings_.missing_route.empty() && request.target.starts_with(settings_.missing_route)) {
    return connection.Reply(
        404, R"({"error":{"message":"Not Found","type":"NotFoundError","param":null,"code":404}})");
  }
  if (request.target == "/health") return Health(connection);
  if (request.target == "/v1/completions") return Complete(request, connection);
  Control(request, connection);
}

std::string ScriptedVllm::Routes() const {
  Json paths = Json::object();
  for (const char* route :
       {"/v1/completions", "/pause", "/resume", "/collective_rpc", "/reset_prefix_cache"}) {
    if (route != settings_.missing_route) paths[route] = Json::object();
  }
  return Json{{"openapi", "3.1.0"}, {"paths", paths}}.dump();
}

void ScriptedVllm::Control(const ScriptedRequest& request, ScriptedConnection& connection) {
  const std::string path = request.target.substr(0, request.target.find('?'));
  if (path == "/version") return connection.Reply(200, R"({"version":"0.26.0"})");
  if (path == "/openapi.json")
    return settings_.lists_routes ? connection.Reply(200, Routes()) : connection.Reply(404, "");
  if (path == "/v1/models") {
    const Json model = {{"id", settings_.model},
                        {"object", "model"},
                        {"parent", nullptr},
                        {"max_model_len", settings_.max_model_len}};
    return connection.Reply(200, Json{{"object", "list"}, {"data", Json::array({model})}}.dump());
  }
  if (path == "/server_info") {
    const Json model = {{"logprobs_mode", settings_.logprobs_mode},
                        {"generation_config", settings_.generation_config},
                        {"dtype", settings_.dtype}};
    const Json config = {{"model_config", model},
                         {"scheduler_config", {{"max_num_seqs", settings_.max_num_seqs}}}};
    return connection.Reply(200, Json{{"vllm_config", config}}.dump());
  }
  MutexLock lock(mutex_);
  control_calls_.push_back(request.target);
  if (path == "/pause") {
    paused_ = true;
    ++pauses_;
    changed_.NotifyAll();
    if (request.target.find("mode=wait") != std::string::npos) {
      changed_.WaitFor(mutex_, kPatience,
                       [this]() REQUIRES(mutex_) { return stopped_ || running_ == 0; });
    }
    // What it cuts ends before the pause is answered.
    changed_.WaitFor(mutex_, kPatience,
                     [this]() REQUIRES(mutex_) { return stopped_ || held_until_pause_ == 0; });
  } else if (path == "/resume") {
    paused_ = false;
  } else if (path == "/collective_rpc") {
    if (fail_reloads_ > 0) {
      --fail_reloads_;
      return connection.Reply(
          500, R"({"error":{"message":"reload failed","type":"InternalServerError","code":500}})");
    }
    if (!ignore_reloads_)
      weights_ = Json::parse(request.body)["kwargs"]["weights_path"].get<std::string>();
  } else if (path != "/reset_prefix_cache") {
    return connection.Reply(404, R"({"error":{"message":"Not Found","code":404}})");
  }
  changed_.NotifyAll();
  connection.Reply(200, R"({"status":"ok","results":[null]})");
}

void ScriptedVllm::Health(ScriptedConnection& connection) {
  HealthFault fault;
  {
    MutexLock lock(mutex_);
    fault = health_fault_;
  }
  switch (fault) {
    case HealthFault::kNone:
      return connection.Reply(200, "");
    case HealthFault::kEmpty503:
      return connection.Reply(503, "");
    case HealthFault::kHang:
      HoldUntil(connection,
                [this]() REQUIRES(mutex_) { return health_fault_ != HealthFault::kHang; });
      return connection.Close();
    case HealthFault::kTrickle:
      break;
  }
  bool going = connection.BeginStream();
  while (going) {
    MutexLock lock(mutex_);
    const bool ended = changed_.WaitFor(mutex_, kLook, [this]() REQUIRES(mutex_) {
      return stopped_ || health_fault_ != HealthFault::kTrickle;
    });
    going = !ended && connection.SendChunk("x");
  }
  connection.Close();
}

void ScriptedVllm::Complete(const ScriptedRequest& request, ScriptedConnection& connection) {
  const Json body = Json::parse(request.body);
  const Call call = Begin(request, body);
  switch (call.fault) {
    case Fault::kHttp500:
      connection.Reply(
          500, R"({"error":{"message":"engine failed","type":"InternalServerError","code":500}})");
      break;
    case Fault::kHttp400:
      connection.Reply(
          400, R"({"error":{"message":"1 validation error","type":"BadRequestError","code":400}})");
      break;
    case Fault::kEmpty503:
      connection.Reply(503, "");
      break;
    case Fault::kCloseAtOnce:
      connection.Close();
      break;
    default:
      Generate(body, call, connection);
  }
  MutexLock lock(mutex_);
  --running_;
  held_until_pause_ -= call.held ? 1 : 0;
  if (!connection.open()) ++left_;
  changed_.NotifyAll();
}

// One step under the lock, so that a pause after WaitForCompletions finds them running.
ScriptedVllm::Call ScriptedVllm::Begin(const ScriptedRequest& request, const Json& body) {
  MutexLock lock(mutex_);
  changed_.WaitFor(mutex_, kPatience, [this]() REQUIRES(mutex_) { return stopped_ || !paused_; });
  Call call;
  call.weights = weights_;
  call.pauses = pauses_;
  if (body["cache_salt"].get<std::string>().starts_with("w")) {
    completions_.push_back(body);
    request_ids_.push_back(request.headers.at("x-request-id"));
    if (!faults_.empty()) {
      call.fault = faults_.front();
      faults_.pop_front();
    }
  }
  const std::int64_t tokens =
      static_cast<std::int64_t>(body["prompt"].size()) + body["max_tokens"].get<std::int64_t>();
  if (tokens > settings_.max_model_len) call.fault = Fault::kHttp400;
  call.held = call.fault == Fault::kHoldUntilPause || call.fault == Fault::kCutBeforeToken;
  ++running_;
  held_until_pause_ += call.held ? 1 : 0;
  changed_.NotifyAll();
  return call;
}

// Waits for ended(), the client to go, or Stop.
void ScriptedVllm::HoldUntil(ScriptedConnection& connection, const std::function<bool()>& ended) {
  MutexLock lock(mutex_);
  while (!changed_.WaitFor(mutex_, kLook, [&]() REQUIRES(mutex_) { return stopped_ || ended(); })) {
    if (connection.ClientGone()) return connection.Close();
  }
  if (stopped_) connection.Close();
}

void ScriptedVllm::Generate(const Json& body, const Call& call, ScriptedConnection& connection) {
  const Fault fault = call.fault;
  const std::size_t prompt = body["prompt"].size();
  const std::size_t most = body["max_tokens"].get<std::size_t>();
  const bool ends = !body["ignore_eos"].get<bool>() || !body["stop_token_ids"].empty();
  std::size_t count = ends ? std::min(most, kTokens) : most;
  const char* finish = count == most ? "length" : "stop";
  if (fault == Fault::kTooManyTokens) count = most + 1;
  if (fault == Fault::kCapOfItsOwn) count = kBeforeFault, finish = "length";
  if (!connection.BeginStream()) return;
  if (fault == Fault::kStallAtOnce) {
    HoldUntil(connection, [] { return false; });
    return connection.Close();
  }
  if (fault == Fault::kCutBeforeToken) {
    HoldUntil(connection, [&]() REQUIRES(mutex_) { return pauses_ > call.pauses; });
    count = 0;
  }

  for (std::size_t i = 0; i < count && connection.open(); ++i) {
    if (fault == Fault::kStallAfterThree && i == 3) {
      HoldUntil(connection, [] { return false; });
      return connection.Close();
    }
    if (i == kBeforeFault) {
      if (fault == Fault::kCloseMidway) return connection.Close();
      if (fault == Fault::kStallMidway) {
        HoldUntil(connection, [] { return false; });
        return connection.Close();
      }
      if (fault == Fault::kHoldUntilPause) {
        HoldUntil(connection, [&]() REQUIRES(mutex_) { return pauses_ > call.pauses; });
        connection.SendChunk(Event(Json::array({ChoiceOf({}, {}, "abort")})));
        return connection.EndStream();
      }
      if (fault == Fault::kErrorEvent) {
        connection.SendChunk(
            "data: {\"error\":{\"message\":\"engine died\",\"code\":500}}\n\ndata: [DONE]\n\n");
        return connection.EndStream();
      }
      if (fault == Fault::kHalfJson) {
        connection.SendChunk("data: {\"id\":\"cmpl-1\",\"choi\n\n");
        return connection.EndStream();
      }
      if (fault == Fault::kNotJson) {
        connection.SendChunk("data: <html>\n\n");
        return connection.EndStream();
      }
    }
    const bool greedy_mask = body["top_k"] == 1 && settings_.processed;
    const double logprob =
        greedy_mask ? settings_.top_1_logprob : LogprobAt(call.weights, prompt + i) + shift();
    Json choice =
        ChoiceOf({TokenAt(call.weights, prompt + i)}, {logprob}, i + 1 == count ? finish : nullptr);
    if (fault == Fault::kNoFinish) choice["finish_reason"] = nullptr;
    if (fault == Fault::kNoLogprobs) choice["logprobs"] = nullptr;
    if (fault == Fault::kFewerLogprobs) choice["logprobs"]["token_logprobs"] = Json::array();
    if (fault == Fault::kNoTokenIds) choice.erase("token_ids");
    if (fault == Fault::kMinusInfinity)
      choice["logprobs"]["token_logprobs"] = Json::array({-9999.0});
    Json choices = Json::array({choice});
    if (fault == Fault::kTwoChoices) choices.push_back(choice);
    const std::string event = Event(choices);
    if (!(fault == Fault::kSlowBytes ? SendBytewise(connection, event)
                                     : connection.SendChunk(event)))
      return;
  }
  const Json usage = {{"prompt_tokens", prompt},
                      {"completion_tokens", fault == Fault::kWrongUsage ? count + 1 : count}};
  connection.SendChunk(Event(Json::array(), usage) + "data: [DONE]\n\n");
  connection.EndStream();
}

}  // namespace buttress
