#include "rollout_worker/serve/weight_calls.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "lib/base/report/log.h"
#include "lib/config/choice.h"
#include "rollout_worker/openai/fields.h"
#include "rollout_worker/openai/reply.h"

namespace buttress {
namespace {

using nlohmann::ordered_json;

constexpr std::chrono::milliseconds kLoadLook(200);

void ReplyDone(ApiCall& call) { call.Reply(200, kJsonType, R"({"success":true})"); }

// What a trainer asks of the settings of vLLM.
ordered_json ServerInfo(const ServedModel& model) {
  return {{"vllm_config",
           {{"model_config",
             {{"logprobs_mode", "processed_logprobs"},
              {"generation_config", "vllm"},
              {"dtype", fmt::format("torch.{}", ChoiceName(model.dtype))}}},
            {"scheduler_config", {{"max_num_seqs", model.max_running}}}}}};
}

}  // namespace

WeightCalls::WeightCalls(InferenceEngine& engine, EngineHub& hub, const ServedModel& model)
    : engine_(engine), hub_(hub), model_(model), thread_([this] { Run(); }) {}

WeightCalls::~WeightCalls() {
  loads_.Close();
  thread_.join();
}

bool WeightCalls::Answer(const std::shared_ptr<ApiCall>& call) {
  if (call->method() == "GET" && call->path() == "/server_info") {
    call->Reply(200, kJsonType, ServerInfo(model_).dump());
    return true;
  }
  if (call->method() == "GET" && call->path() == "/weight_info") {
    MutexLock lock(mutex_);
    call->Reply(200, kJsonType, ordered_json{{"weight_version", tag_}}.dump());
    return true;
  }
  if (call->method() != "POST") return false;
  const Status status = Post(call);
  if (status.code() == StatusCode::kUnimplemented) return false;
  if (!status.ok()) call->Reply(HttpCodeOf(status), kJsonType, ErrorBody(status));
  return true;
}

Status WeightCalls::Post(const std::shared_ptr<ApiCall>& call) {
  const std::string_view path = call->path();
  if (path == "/pause") {
    const std::string mode = call->Argument("mode");
    if (mode != "abort" && !mode.empty()) {
      return InvalidArgument("mode = " + mode +
                             "; expected abort: this server cannot hold or wait "
                             "for completions (run.async.in_flight: recompute)");
    }
    hub_.Pause([call] { ReplyDone(*call); });
    return OkStatus();
  }
  if (path == "/collective_rpc") return Reload(call);
  if (path == "/update_weight_version") {
    BUTTRESS_ASSIGN_OR_RETURN(const ordered_json body, ParseObject(call->body()));
    const ordered_json version = body.value("new_version", ordered_json());
    if (!version.is_string()) return InvalidArgument("new_version is missing; expected a text");
    MutexLock lock(mutex_);
    tag_ = version.get<std::string>();
  } else if (path == "/resume") {
    hub_.Resume();
  } else if (path != "/reset_prefix_cache") {  // no prefix outlives its completions
    return {StatusCode::kUnimplemented, ""};
  }
  ReplyDone(*call);
  return OkStatus();
}

Status WeightCalls::Reload(const std::shared_ptr<ApiCall>& call) {
  BUTTRESS_ASSIGN_OR_RETURN(const ordered_json body, ParseObject(call->body()));
  const ordered_json::json_pointer path("/kwargs/weights_path");
  if (body.value("method", ordered_json()) != "reload_weights" || !body.contains(path) ||
      !body[path].is_string())
    return InvalidArgument(
        R"(method is not known; expected "reload_weights", "kwargs": {"weights_path": FOLDER})");
  Load load{call, body[path].get<std::string>()};
  if (!loads_.Push(load, std::chrono::milliseconds(0)))
    return Unavailable("other weights are being loaded; try again later");
  return OkStatus();
}

void WeightCalls::Run() {
  std::uint64_t loaded = 0;
  while (!loads_.closed()) {
    std::optional<Load> load = loads_.Pop(kLoadLook);
    if (!load) continue;
    WeightManifest manifest;
    manifest.folder = load->folder;
    manifest.version.step = loaded + 1;
    const Status status = engine_.UpdateWeights(manifest);
    if (!status.ok()) {
      Log(kWarn, "weights could not be loaded; the old ones stay",
          {{"folder", load->folder}, {"why", status.message()}});
      load->call->Reply(HttpCodeOf(status), kJsonType, ErrorBody(status));
      continue;
    }
    ++loaded;
    Log(kInfo, "weights are loaded", {{"folder", load->folder}});
    ReplyDone(*load->call);
  }
}

}  // namespace buttress
