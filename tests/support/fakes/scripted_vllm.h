// What a vLLM server answers, on a ScriptedHttpServer: tokens and log-probs follow from the
// weights' path. It refuses what vLLM refuses, and also the fields that vLLM does not know, which
// vLLM ignores in silence. Told to, it misbehaves.
#pragma once

#include <deque>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "lib/base/thread/sync.h"
#include "lib/weights/manifest.h"
#include "tests/support/fakes/scripted_http_server.h"

namespace buttress {

// What happens to one completion.
enum class Fault {
  kNone,
  kHttp500,
  kHttp400,
  kTooLong,
  kEmpty503,
  kCloseAtOnce,  // no reply
  kCloseMidway,  // after two tokens
  kStallAtOnce,  // headers, no byte of the body
  kStallMidway,  // after two tokens
  kStallAfterThree,
  kHoldUntilPause,  // after two tokens; then finish_reason abort
  kSendAtPause,     // the same, and the third token comes with it
  kCutBeforeToken,  // holds until a pause; then no choice at all, as vLLM does
  kSlowBytes,       // byte by byte
  kHalfJson,
  kNotJson,
  kErrorEvent,  // after two tokens, then [DONE]
  kNoLogprobs,
  kFewerLogprobs,
  kNoTokenIds,
  kMinusInfinity,
  kTwoChoices,
  kWrongUsage,
  kNoFinish,
  kCapOfItsOwn,  // finish_reason length after two tokens
  kTooManyTokens,
};

// What happens to health checks.
enum class HealthFault { kNone, kEmpty503, kHang, kTrickle };

class ScriptedVllm {
 public:
  // Of the server as it was started; changed before the first request.
  struct Settings {
    std::string model = "policy";
    std::string api_key;
    std::string logprobs_mode = "processed_logprobs";
    std::string generation_config = "vllm";
    bool processed = true;     // what its log-probs really are
    double top_1_logprob = 0;  // of a token with top_k = 1, if they are
    bool lists_routes = true;
    bool lora = true;      // --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING
    bool dev_mode = true;  // VLLM_SERVER_DEV_MODE: the routes to pause, load and resume
    std::string missing_route;
    std::int64_t max_model_len = 64;
    std::int64_t max_num_seqs = 4;
    std::string dtype = "torch.float32";
    std::int64_t seed = 0;
    bool takes_stream_interval = false;  // in a request, as a newer vLLM does
    int port = 0;                        // 0: a free one
    int process = 0;                     // another number is another process
    // Native weight transfers (vLLM 0.32): takes the body of a POST and returns why it fails, or
    // nothing. Without it the server has no such routes.
    std::function<std::string(const std::string& path, const nlohmann::json& body)> transfer;
    std::string transfer_backend = "nccl";
    bool unpickles = true;    // VLLM_ALLOW_INSECURE_SERIALIZATION
    bool sleep_mode = false;  // --enable-sleep-mode
  };

  ScriptedVllm() : ScriptedVllm(Settings()) {}

  explicit ScriptedVllm(Settings settings);

  ~ScriptedVllm() { Stop(); }

  std::string url() const { return server_.url(); }

  void Stop();

  // After Stop, or after a load that ended it: answers at the same address, as another process,
  // with weights that no worker asked for.
  void Restart();

  // Completions and pauses get no answer, or completions a token each `ms`; 0: as before. Health
  // checks pass.
  void HangCompletions(bool hang);
  void Drip(std::int64_t ms);

  void FailHealth(HealthFault fault);

  // The next completions of samples (not of probes or canaries) go so.
  void Fail(std::vector<Fault> faults);
  // reload_weights: answers 500, or 200 without doing it.
  void FailReloads(int count);
  void IgnoreReloads(bool ignore);
  // They get no answer, and are not done until this ends.
  void HangReloads(bool hang);
  // /sleep and /wake_up: the next `count` answer 500, or they get no answer.
  void FailSleep(int count);
  void HangSleep(bool hang);
  // Every log-prob from now on is off by so much.
  void ShiftLogprobs(double nats);
  // As a restart leaves it: other weights than any worker asked for.
  void ForgetWeights();

  // What `weights` complete a prompt with, for positions [begin, end) of the whole sequence.
  static std::vector<std::int32_t> Tokens(const std::string& weights, std::size_t begin,
                                          std::size_t end);

  // What a learner with these weights publishes as canaries.
  static std::vector<Canary> Canaries(const std::string& weights);

  // Whether it ended because it was told to load a folder that is not there, or to sample without
  // the memory that it gave back.
  bool ended() const;

  // Whether it has given back any memory.
  bool asleep() const;

  // Waits at most ten seconds until a reload hangs.
  bool WaitForHungReload();

  // Waits at most ten seconds until `count` completions of samples have begun, or have been left by
  // the client.
  bool WaitForCompletions(std::size_t count);
  bool WaitForLeft(std::size_t count);

  std::vector<nlohmann::json> completions() const;  // bodies of samples
  std::vector<std::string> request_ids() const;     // of samples
  std::vector<std::string> control_calls() const;   // targets, in order
  std::string weights() const;
  std::string adapters() const;  // loaded next to the weights; empty: none

 private:
  // A completion as it was when it began.
  struct Call {
    Fault fault = Fault::kNone;
    std::string weights;
    std::string id;
    std::string error;  // why it is refused; empty: it is not
    int pauses = 0;
    bool held = false;  // until a pause
  };

  std::string WeightsOf(const Call& call, ScriptedConnection& connection);

  double shift() const {
    MutexLock lock(mutex_);
    return shift_;
  }

  void Handle(const ScriptedRequest& request, ScriptedConnection& connection);
  bool Refuses(const ScriptedRequest& request, ScriptedConnection& connection);
  void Pause(const ScriptedRequest& request, ScriptedConnection& connection) REQUIRES(mutex_);
  void Reload(const ScriptedRequest& request, ScriptedConnection& connection) REQUIRES(mutex_);
  void LoadAdapters(const ScriptedRequest& request, ScriptedConnection& connection)
      REQUIRES(mutex_);
  void Transfer(const std::string& path, const ScriptedRequest& request,
                ScriptedConnection& connection);
  void Sleep(const ScriptedRequest& request, ScriptedConnection& connection) REQUIRES(mutex_);
  void WakeUp(const ScriptedRequest& request, ScriptedConnection& connection) REQUIRES(mutex_);
  bool WaitWhile(const bool& hang, ScriptedConnection& connection) REQUIRES(mutex_);
  void Control(const ScriptedRequest& request, ScriptedConnection& connection);
  void Health(ScriptedConnection& connection);
  void Complete(const ScriptedRequest& request, ScriptedConnection& connection);
  Call Begin(const ScriptedRequest& request, const nlohmann::json& body);
  void Answer(const nlohmann::json& body, const Call& call, ScriptedConnection& connection);
  bool WaitForDrip(const Call& call, ScriptedConnection& connection);
  void Generate(const nlohmann::json& body, const Call& call, ScriptedConnection& connection);
  void HoldUntil(ScriptedConnection& connection, const std::function<bool()>& ended);
  std::string Routes() const;

  const Settings settings_;
  mutable Mutex mutex_;
  CondVar changed_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  bool ended_ GUARDED_BY(mutex_) = false;
  int starts_ GUARDED_BY(mutex_) = 1;
  bool hang_completions_ GUARDED_BY(mutex_) = false;
  bool hang_reloads_ GUARDED_BY(mutex_) = false;
  int hung_reloads_ GUARDED_BY(mutex_) = 0;
  std::int64_t drip_ms_ GUARDED_BY(mutex_) = 0;
  std::set<std::string> running_ids_ GUARDED_BY(mutex_);
  bool paused_ GUARDED_BY(mutex_) = false;
  bool kept_ GUARDED_BY(mutex_) = false;             // a pause has held completions
  std::set<std::string> asleep_ GUARDED_BY(mutex_);  // the tags of /wake_up
  int fail_sleep_ GUARDED_BY(mutex_) = 0;
  bool hang_sleep_ GUARDED_BY(mutex_) = false;
  int pauses_ GUARDED_BY(mutex_) = 0;
  int running_ GUARDED_BY(mutex_) = 0;
  int held_until_pause_ GUARDED_BY(mutex_) = 0;
  std::string adapters_ GUARDED_BY(mutex_), adapter_model_ GUARDED_BY(mutex_);
  int fail_reloads_ GUARDED_BY(mutex_) = 0;
  bool ignore_reloads_ GUARDED_BY(mutex_) = false;
  double shift_ GUARDED_BY(mutex_) = 0;
  HealthFault health_fault_ GUARDED_BY(mutex_) = HealthFault::kNone;
  std::size_t left_ GUARDED_BY(mutex_) = 0;
  std::string weights_ GUARDED_BY(mutex_) = "as started";
  std::string tag_ GUARDED_BY(mutex_) = "default";  // of the weights
  std::deque<Fault> faults_ GUARDED_BY(mutex_);
  std::vector<nlohmann::json> completions_ GUARDED_BY(mutex_);
  std::vector<std::string> request_ids_ GUARDED_BY(mutex_);
  std::vector<std::string> control_calls_ GUARDED_BY(mutex_);
  ScriptedHttpServer server_;
};

}  // namespace buttress
