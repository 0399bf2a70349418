#include "tests/support/fakes/scripted_vllm.h"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "lib/base/os/clock.h"
#include "lib/base/text/random.h"
#include "tests/support/fakes/vllm_refusals.h"
#include "tests/support/patience.h"

namespace buttress {
namespace {

using Json = nlohmann::json;

constexpr std::chrono::milliseconds kLook(5);
constexpr std::size_t kEnd = 8;  // a completion ends where this divides the tokens of the whole
constexpr const char* kDevRoutes[] = {
    "/pause", "/resume",  "/collective_rpc", "/reset_prefix_cache",
    "/sleep", "/wake_up", "/is_sleeping",    "/server_info"};
constexpr const char* kTransferRoutes[] = {
    "/init_weight_transfer_engine", "/start_weight_update", "/update_weights",
    "/finish_weight_update",        "/get_world_size",      "/weight_info",
    "/update_weight_version"};
constexpr char kLoadAdapters[] = "/v1/load_lora_adapter";
constexpr std::size_t kBeforeFault = 2;

// Neighbours differ, so that a stop string of two tokens is not found one token earlier.
std::int32_t TokenAt(const std::string& weights, std::size_t position) {
  const std::uint64_t pair = MixSeed(HashText(weights), position) % 20;
  return static_cast<std::int32_t>(10 + 2 * pair + position % 2);
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
      server_([this](const ScriptedRequest& request,
                     ScriptedConnection& connection) { Handle(request, connection); },
              settings_.port) {}

void ScriptedVllm::Stop() {
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    changed_.NotifyAll();
  }
  server_.Stop();
}

void ScriptedVllm::Restart() {
  Stop();
  {
    MutexLock lock(mutex_);
    stopped_ = ended_ = paused_ = false;
    asleep_.clear();
    ++starts_;
    weights_ = "after a restart";
    adapters_.clear();
  }
  server_.Restart();
}

void ScriptedVllm::HangCompletions(bool hang) {
  MutexLock lock(mutex_);
  hang_completions_ = hang;
  changed_.NotifyAll();
}

void ScriptedVllm::Drip(std::int64_t ms) {
  MutexLock lock(mutex_);
  drip_ms_ = ms;
  changed_.NotifyAll();
}

void ScriptedVllm::HangReloads(bool hang) {
  MutexLock lock(mutex_);
  hang_reloads_ = hang;
  changed_.NotifyAll();
}

void ScriptedVllm::FailSleep(int count) {
  MutexLock lock(mutex_);
  fail_sleep_ = count;
}

void ScriptedVllm::HangSleep(bool hang) {
  MutexLock lock(mutex_);
  hang_sleep_ = hang;
  changed_.NotifyAll();
}

bool ScriptedVllm::asleep() const {
  MutexLock lock(mutex_);
  return !asleep_.empty();
}

bool ScriptedVllm::WaitForHungReload() {
  MutexLock lock(mutex_);
  return changed_.WaitFor(mutex_, kPatience,
                          [this]() REQUIRES(mutex_) { return hung_reloads_ > 0; });
}

bool ScriptedVllm::ended() const {
  MutexLock lock(mutex_);
  return ended_;
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
  ++starts_;
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

std::string ScriptedVllm::adapters() const {
  MutexLock lock(mutex_);
  return adapters_;
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
  if (Refuses(request, connection)) return;
  if (request.target == "/health") return Health(connection);
  if (request.target == "/v1/completions") return Complete(request, connection);
  Control(request, connection);
}

// What every route has in common. A server that has ended closes the connection.
bool ScriptedVllm::Refuses(const ScriptedRequest& request, ScriptedConnection& connection) {
  if (ended()) {
    connection.Close();
    return true;
  }
  const std::string path = request.target.substr(0, request.target.find('?'));
  const bool dev = std::ranges::find(kDevRoutes, path) != std::end(kDevRoutes);
  const bool loads = path == kLoadAdapters;
  const bool missing = (!settings_.missing_route.empty() && path == settings_.missing_route) ||
                       (loads && !settings_.lora);
  if (missing || (dev && !settings_.dev_mode)) {
    connection.Reply(
        404, R"({"error":{"message":"Not Found","type":"NotFoundError","param":null,"code":404}})");
    return true;
  }
  const bool transfers = std::ranges::find(kTransferRoutes, path) != std::end(kTransferRoutes) &&
                         path != "/get_world_size" && path != "/weight_info";
  const bool posts = path == "/v1/completions" || loads || transfers ||
                     (dev && path != "/server_info" && path != "/is_sleeping");
  if (posts != (request.method == "POST")) {
    connection.Reply(405, R"({"error":{"message":"Method Not Allowed","code":405}})");
    return true;
  }
  return false;
}

std::string ScriptedVllm::Routes() const {
  Json paths = Json::object();
  paths["/v1/completions"] = Json::object();
  for (const char* route : kDevRoutes) {
    if (route != settings_.missing_route && settings_.dev_mode) paths[route] = Json::object();
  }
  for (const char* route : kTransferRoutes)
    if (settings_.transfer) paths[route] = Json::object();
  Json fields = Json::object();
  if (settings_.takes_stream_interval) fields["stream_interval"] = Json::object();
  const Json schemas = {{"CompletionRequest", {{"properties", fields}}}};
  return Json{{"openapi", "3.1.0"}, {"paths", paths}, {"components", {{"schemas", schemas}}}}
      .dump();
}

void ScriptedVllm::Control(const ScriptedRequest& request, ScriptedConnection& connection) {
  const std::string path = request.target.substr(0, request.target.find('?'));
  if (path == "/version") {
    return connection.Reply(
        200, settings_.transfer ? R"({"version":"0.32.0"})" : R"({"version":"0.26.0"})");
  }
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
                        {"seed", settings_.seed},
                        {"enable_sleep_mode", settings_.sleep_mode},
                        {"dtype", settings_.dtype}};
    const Json config = {{"model_config", model},
                         {"scheduler_config", {{"max_num_seqs", settings_.max_num_seqs}}},
                         {"weight_transfer_config", {{"backend", settings_.transfer_backend}}}};
    const Json env = {{"VLLM_ALLOW_INSECURE_SERIALIZATION", settings_.unpickles}};
    return connection.Reply(200, Json{{"vllm_config", config}, {"vllm_env", env}}.dump());
  }
  if (path == "/metrics") {
    MutexLock lock(mutex_);
    return connection.Reply(200,
                            "# TYPE process_start_time_seconds gauge\n"
                            "process_start_time_seconds 1.79" +
                                std::to_string(100000 + settings_.process + starts_) + "e+09\n");
  }
  if (settings_.transfer && std::ranges::find(kTransferRoutes, path) != std::end(kTransferRoutes))
    return Transfer(path, request, connection);
  MutexLock lock(mutex_);
  if (path == "/is_sleeping") {
    const bool sleeping = paused_ || !asleep_.empty();
    return connection.Reply(200, Json{{"is_sleeping", sleeping}}.dump());
  }
  control_calls_.push_back(request.target);
  if (path == "/sleep") return Sleep(request, connection);
  if (path == "/wake_up") return WakeUp(request, connection);
  if (path == "/pause") return Pause(request, connection);
  if (path == "/collective_rpc") return Reload(request, connection);
  if (path == kLoadAdapters) return LoadAdapters(request, connection);
  if (path == "/reset_prefix_cache") {
    // Blocks that a running completion holds cannot be dropped.
    return connection.Reply(200, paused_ ? R"({"success":true})" : R"({"success":false})");
  }
  if (path != "/resume")
    return connection.Reply(404, R"({"error":{"message":"Not Found","code":404}})");
  paused_ = false;
  changed_.NotifyAll();
  connection.Reply(200, R"({"status":"resumed"})");
}

// Weights that arrive so have the name of their version.
void ScriptedVllm::Transfer(const std::string& path, const ScriptedRequest& request,
                            ScriptedConnection& connection) {
  if (path == "/get_world_size") return connection.Reply(200, R"({"world_size":1})");
  const Json body = Json::parse(request.body, nullptr, false);
  {
    MutexLock lock(mutex_);
    if (path == "/weight_info") return connection.Reply(200, Json{{"weight_version", tag_}}.dump());
    control_calls_.push_back(request.target);
    if (path == "/update_weight_version") {
      tag_ = body["new_version"];
      return connection.Reply(200, R"({"success":true})");
    }
    if (asleep_.contains("weights") && path == "/update_weights")
      return connection.Reply(500, R"({"error":{"message":"no memory","code":500}})");
    if (path != "/init_weight_transfer_engine" && !paused_)
      return connection.Reply(500, R"({"error":{"message":"requests run","code":500}})");
  }
  if (const std::string error = settings_.transfer(path, body); !error.empty())
    return connection.Reply(500, Json{{"error", {{"message", error}, {"code", 500}}}}.dump());
  MutexLock lock(mutex_);
  if (path == "/finish_weight_update" && body.is_object()) weights_ = tag_ = body["weight_version"];
  connection.Reply(200, R"({"message":"done"})");
}

// As EngineCore.sleep of vLLM 0.32: the scheduler is paused until all memory is there again.
void ScriptedVllm::Sleep(const ScriptedRequest& request, ScriptedConnection& connection) {
  if (!WaitWhile(hang_sleep_, connection)) return connection.Close();
  if (fail_sleep_ > 0) {
    --fail_sleep_;
    return connection.Reply(500, R"({"error":{"message":"cannot sleep","code":500}})");
  }
  paused_ = true;
  ++pauses_;
  if (settings_.sleep_mode) asleep_ = {"weights", "kv_cache"};
  if (request.target.find("level=2") != std::string::npos) weights_ = "lost in sleep";
  changed_.NotifyAll();
  connection.Reply(200, R"({"status":"sleeping"})");
}

void ScriptedVllm::WakeUp(const ScriptedRequest& request, ScriptedConnection& connection) {
  if (!WaitWhile(hang_sleep_, connection)) return connection.Close();
  if (fail_sleep_ > 0) {
    --fail_sleep_;
    return connection.Reply(500, R"({"error":{"message":"cannot wake up","code":500}})");
  }
  const std::size_t tag = request.target.find("tags=");
  if (tag == std::string::npos) {
    asleep_.clear();
  } else {
    asleep_.erase(request.target.substr(tag + 5));
  }
  paused_ = paused_ && !asleep_.empty();
  changed_.NotifyAll();
  connection.Reply(200, asleep_.empty() ? R"({"status":"awake"})" : R"({"status":"sleeping"})");
}

// Returns false if the client has gone, or the server stops.
bool ScriptedVllm::WaitWhile(const bool& hang, ScriptedConnection& connection) {
  while (!changed_.WaitFor(mutex_, kLook, [&]() REQUIRES(mutex_) { return stopped_ || !hang; })) {
    if (connection.ClientGone()) return false;
  }
  return !stopped_;
}

void ScriptedVllm::Pause(const ScriptedRequest& request, ScriptedConnection& connection) {
  const bool waits = request.target.find("mode=wait") != std::string::npos;
  const bool keeps = request.target.find("mode=keep") != std::string::npos;
  if (!waits && !keeps && request.target.find("mode=abort") == std::string::npos)
    return connection.Reply(400, R"({"error":{"message":"Input should be abort, wait or keep"}})");
  if (!WaitWhile(hang_completions_, connection)) return connection.Close();
  paused_ = true;
  kept_ = kept_ || keeps;
  if (keeps) return connection.Reply(200, R"({"status":"paused"})");
  ++pauses_;
  changed_.NotifyAll();
  if (waits) {
    changed_.WaitFor(mutex_, kPatience,
                     [this]() REQUIRES(mutex_) { return stopped_ || running_ == 0; });
  }
  // What it cuts ends before the pause is answered.
  changed_.WaitFor(mutex_, kPatience,
                   [this]() REQUIRES(mutex_) { return stopped_ || held_until_pause_ == 0; });
  connection.Reply(200, R"({"status":"paused"})");
}

void ScriptedVllm::Reload(const ScriptedRequest& request, ScriptedConnection& connection) {
  const Json body = Json::parse(request.body, nullptr, false);
  const auto failed = [&](const char* why) {
    connection.Reply(500, Json{{"error", {{"message", why}, {"code", 500}}}}.dump());
  };
  if (!body.is_object() || !body.contains("method"))
    return connection.Reply(400, R"({"detail":"Missing 'method' in request body"})");
  if (body["method"] != "reload_weights") return failed("no such method");
  if (asleep_.contains("weights")) return failed("no memory for the weights");
  // vLLM would mix the weights into the step that runs.
  if (!paused_) return failed("weights are loaded while requests run");
  if (hang_reloads_) {
    ++hung_reloads_;
    changed_.NotifyAll();
    if (!WaitWhile(hang_reloads_, connection)) return connection.Close();
  }
  if (fail_reloads_ > 0) {
    --fail_reloads_;
    return failed("reload failed");
  }
  const std::string folder = body["kwargs"]["weights_path"].get<std::string>();
  if (!std::filesystem::is_directory(folder)) {
    ended_ = true;  // as vLLM's engine does
    return connection.Close();
  }
  if (!ignore_reloads_) weights_ = folder;
  connection.Reply(200, R"({"results":[null]})");
}

void ScriptedVllm::LoadAdapters(const ScriptedRequest& request, ScriptedConnection& connection) {
  const Json body = Json::parse(request.body, nullptr, false);
  const std::string name = body.value("lora_name", ""), folder = body.value("lora_path", "");
  const auto refused = [&](int code, const char* why) {
    connection.Reply(code, Json{{"error", {{"message", why}, {"code", code}}}}.dump());
  };
  if (name.empty() || folder.empty())
    return refused(400, "Both 'lora_name' and 'lora_path' must be provided.");
  if (!adapters_.empty() && !body.value("load_inplace", false))
    return refused(400, "The lora adapter has already been loaded.");
  if (!std::filesystem::is_directory(folder)) return refused(404, "No adapter found");
  adapter_model_ = name;
  adapters_ = folder;
  connection.Reply(200, "Success: LoRA adapter '" + name + "' added successfully.");
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
  const auto type = request.headers.find("content-type");
  const Json body = Json::parse(request.body, nullptr, false);
  if (type == request.headers.end() || type->second != "application/json" || !body.is_object())
    return connection.Reply(400, R"({"error":{"message":"Only 'application/json' is allowed"}})");
  const std::string model = body.value("model", "");
  const bool known = [&] {
    MutexLock lock(mutex_);
    return model == settings_.model || (!adapters_.empty() && model == adapter_model_);
  }();
  if (!known) {
    return connection.Reply(
        404, R"({"error":{"message":"The model does not exist","type":"NotFoundError"}})");
  }
  if (!body.value("stream", false)) {  // of `buttress eval`
    return connection.Reply(200, Json{{"choices", {{{"text", "3"}, {"finish_reason", "stop"}}}},
                                      {"usage", {{"completion_tokens", 1}}}}
                                     .dump());
  }
  const Call call = Begin(request, body);
  if (!call.error.empty()) {
    connection.Reply(
        400, Json{{"error", {{"message", call.error}, {"type", "BadRequestError"}}}}.dump());
  } else {
    Answer(body, call, connection);
  }
  MutexLock lock(mutex_);
  --running_;
  running_ids_.erase(call.id);
  held_until_pause_ -= call.held ? 1 : 0;
  if (!connection.open()) ++left_;
  changed_.NotifyAll();
}

void ScriptedVllm::Answer(const Json& body, const Call& call, ScriptedConnection& connection) {
  switch (call.fault) {
    case Fault::kHttp500:
      connection.Reply(
          500, R"({"error":{"message":"engine failed","type":"InternalServerError","code":500}})");
      break;
    case Fault::kHttp400:
      connection.Reply(
          400, R"({"error":{"message":"1 validation error","type":"BadRequestError","code":400}})");
      break;
    case Fault::kTooLong:
      connection.Reply(400, R"({"error":{"message":"This model's maximum context length is 20 )"
                            R"(tokens.","type":"BadRequestError","code":400}})");
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
}

// One step under the lock, so that a pause after WaitForCompletions finds them running.
ScriptedVllm::Call ScriptedVllm::Begin(const ScriptedRequest& request, const Json& body) {
  MutexLock lock(mutex_);
  changed_.WaitFor(mutex_, kPatience, [this]() REQUIRES(mutex_) { return stopped_ || !paused_; });
  ended_ = ended_ || !asleep_.empty();
  Call call;
  call.weights = body["model"] == settings_.model ? weights_ : adapters_;
  call.pauses = pauses_;
  if (body["cache_salt"].get<std::string>().starts_with("w")) {
    completions_.push_back(body);
    request_ids_.push_back(request.headers.at("x-request-id"));
    if (!faults_.empty()) {
      call.fault = faults_.front();
      faults_.pop_front();
    }
  }
  call.error = VllmRefusal(body, settings_.max_model_len, settings_.takes_stream_interval);
  const auto id = request.headers.find("x-request-id");
  if (id != request.headers.end()) call.id = id->second;
  if (!call.id.empty() && !running_ids_.insert(call.id).second) {
    call.error = "request id " + call.id + " is in use";
    call.id.clear();
  }
  call.held = call.fault == Fault::kHoldUntilPause || call.fault == Fault::kCutBeforeToken ||
              call.fault == Fault::kSendAtPause;
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

// Waits for the time of the next token. Returns whether a pause has cut the completion instead.
bool ScriptedVllm::WaitForDrip(const Call& call, ScriptedConnection& connection) {
  MutexLock lock(mutex_);
  const std::int64_t until_ms = RealClock().MonotonicMs() + drip_ms_;
  bool cut = false;
  while (!stopped_ && !cut && drip_ms_ > 0 && RealClock().MonotonicMs() < until_ms) {
    if (connection.ClientGone()) {
      connection.Close();
      return false;
    }
    changed_.WaitFor(mutex_, kLook, [&]() REQUIRES(mutex_) { return stopped_; });
    cut = pauses_ > call.pauses;
  }
  return cut;
}

// Waits while a pause keeps the completion. Returns the weights that it continues under.
std::string ScriptedVllm::WeightsOf(const Call& call, ScriptedConnection& connection) {
  HoldUntil(connection, [&]() REQUIRES(mutex_) { return !paused_ || pauses_ > call.pauses; });
  MutexLock lock(mutex_);
  return pauses_ > call.pauses || !kept_ ? call.weights : weights_;
}

void ScriptedVllm::Generate(const Json& body, const Call& call, ScriptedConnection& connection) {
  const Fault fault = call.fault;
  const std::size_t prompt = body["prompt"].size();
  const std::size_t most = body["max_tokens"].get<std::size_t>();
  const bool ends = !body["ignore_eos"].get<bool>() || !body["stop_token_ids"].empty();
  std::size_t count = ends ? std::min(most, kEnd - prompt % kEnd) : most;
  const char* finish = count == most ? "length" : "stop";
  if (fault == Fault::kTooManyTokens) count = most + 1;
  if (fault == Fault::kCapOfItsOwn) count = kBeforeFault, finish = "length";
  HoldUntil(connection, [this]() REQUIRES(mutex_) { return !hang_completions_; });
  if (!connection.open() || !connection.BeginStream()) return;
  if (fault == Fault::kStallAtOnce) {
    HoldUntil(connection, [] { return false; });
    return connection.Close();
  }
  if (fault == Fault::kCutBeforeToken) {
    HoldUntil(connection, [&]() REQUIRES(mutex_) { return pauses_ > call.pauses; });
    count = 0;
  }

  for (std::size_t i = 0; i < count && connection.open(); ++i) {
    if (WaitForDrip(call, connection)) {
      connection.SendChunk(Event(Json::array({ChoiceOf({}, {}, "abort")})));
      return connection.EndStream();
    }
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
      if (fault == Fault::kHoldUntilPause || fault == Fault::kSendAtPause) {
        HoldUntil(connection, [&]() REQUIRES(mutex_) { return pauses_ > call.pauses; });
        const Json last = fault == Fault::kHoldUntilPause
                              ? ChoiceOf({}, {}, "abort")
                              : ChoiceOf({TokenAt(call.weights, prompt + i)},
                                         {LogprobAt(call.weights, prompt + i)}, "abort");
        connection.SendChunk(Event(Json::array({last})));
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
    const std::string weights = WeightsOf(call, connection);
    const double logprob =
        greedy_mask ? settings_.top_1_logprob : LogprobAt(weights, prompt + i) + shift();
    Json choice =
        ChoiceOf({TokenAt(weights, prompt + i)}, {logprob}, i + 1 == count ? finish : nullptr);
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
