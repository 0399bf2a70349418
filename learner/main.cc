// The learner: `mpirun -np R learner --config run.yaml`, and `learner sft` for supervised training.
#include <c10/util/StringUtil.h>
#include <torch/types.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "learner/job.h"
#include "learner/rank_device.h"
#include "learner/rank_memory.h"
#include "learner/sft/sft.h"
#include "learner/step/context_ranks.h"
#include "lib/base/net/address.h"
#include "lib/base/os/failpoint.h"
#include "lib/base/os/file.h"
#include "lib/base/os/shutdown.h"
#include "lib/base/report/log.h"
#include "lib/base/report/metrics.h"
#include "lib/base/report/status.h"
#include "lib/checks/program_checks.h"
#include "lib/collectives/launcher.h"
#include "lib/config/choice_option.h"
#include "lib/config/load.h"
#include "lib/config/load_credentials.h"
#include "lib/data/template_argument_option.h"
#include "lib/policy/adapters/adapted_model.h"
#include "lib/policy/context_heads.h"
#include "lib/policy/exception_status.h"
#include "lib/policy/weights/finite_check.h"

namespace buttress {
namespace {

// Sets the variables that Open MPI and NCCL read when they start. A variable that the environment
// already has keeps its value.
void UseInterface(const std::string& interface) {
  if (interface.empty()) return;
  ::setenv("OMPI_MCA_btl_tcp_if_include", interface.c_str(), 0);
  ::setenv("NCCL_SOCKET_IFNAME", interface.c_str(), 0);
}

Result<std::unique_ptr<Collective>> MakeControl(const LearnerConfig& local) {
  UseInterface(local.interface);
  if (local.collective != CollectiveKind::kLocal)
    return MakeMpiCollective(std::chrono::milliseconds(local.collective_timeout_ms));
  std::unique_ptr<Collective> alone = MakeLocalCollective();
  BUTTRESS_RETURN_IF_ERROR(CheckWorld(ReadLaunch(), *alone));
  return alone;
}

// Checks that all ranks have the same settings of `run`; every rank gets the same answer.
Status CheckRanks(const RunConfig& config, Collective& control, int expected_world) {
  const int world = control.size();
  BUTTRESS_RETURN_IF_ERROR(CheckWorld(ReadLaunch(), control));
  if (expected_world > 0 && world != expected_world) {
    return InvalidArgument(c10::str("--expect-world is ", expected_world, ", but the job has ",
                                    world, " ranks; start it with mpirun -np ", expected_world));
  }
  const std::chrono::milliseconds timeout(config.local.learner.collective_timeout_ms);
  const std::string own = RunConfigHash(config);
  BUTTRESS_ASSIGN_OR_RETURN(const std::string first, BroadcastBytes(control, own, 0, timeout));
  std::int64_t differing = own == first ? 0 : 1;
  BUTTRESS_RETURN_IF_ERROR(control.AllReduceSum({&differing, 1, DType::kInt64})->Wait(timeout));
  if (differing == 0) return OkStatus();
  return InvalidArgument(
      c10::str(differing, " of ", world, " ranks have other settings of `run` than rank 0 (",
               first.substr(0, 12), "); give all ranks the same configuration file"));
}

// Serves /metrics on the configured port plus the local rank, and writes the address to
// <out>/learner/<rank>.metrics. A port that is taken is a warning: a run does not fail for its
// metrics.
Status ServeMetrics(Metrics& metrics, const RunConfig& config, const Credentials& credentials,
                    int rank, LocalPlace place) {
  const std::string address = RankAddress(config.local.learner.metrics, place.rank);
  if (address == "off") return OkStatus();
  if (const Status status = metrics.Serve(address, credentials); !status.ok()) {
    Log(kWarn, status.message());
    return OkStatus();
  }
  const std::string folder = JoinPath(config.local.out, "learner");
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(folder));
  return WriteFileAtomic(JoinPath(folder, std::to_string(rank) + ".metrics"),
                         BoundAddress(address, metrics.port()) + "\n");
}

// Lets collectives wait for ranks that are busy but alive. Without heartbeats, a network that lets
// only MPI through, a collective ends after its timeout.
Result<std::unique_ptr<Liveness>> WatchRanks(const LearnerConfig& local, Collective& control) {
  if (control.size() == 1) return std::unique_ptr<Liveness>();
  LivenessOptions options;
  options.silence = std::chrono::milliseconds(local.collective_timeout_ms);
  options.stuck = std::chrono::milliseconds(local.stuck_timeout_ms);
  options.interface = local.interface;
  auto liveness = StartLiveness(control, options);
  if (liveness.status().code() == StatusCode::kFailedPrecondition) {
    Log(kWarn, "no heartbeats between ranks", {{"why", liveness.status().message()}});
    return std::unique_ptr<Liveness>();
  }
  return liveness;
}

Result<RankDevice> OpenDevice(const LearnerConfig& local, Collective& control) {
  return OpenRankDevice(
      {local.device, local.collective == CollectiveKind::kNccl, local.share_gpu,
       "local.learner.device: cpu", std::chrono::milliseconds(local.collective_timeout_ms)},
      control);
}

// `--check`: the first rank of each machine checks for all of it and prints what it finds; every
// rank gets the same answer.
Status CheckOnRank(const RunConfig& config, const ConfigFlags& flags, int expected_world,
                   Collective& control) {
  const LearnerConfig& local = config.local.learner;
  const std::chrono::milliseconds timeout(local.collective_timeout_ms);
  SetLogRole("learner/" + std::to_string(control.rank()));
  BUTTRESS_RETURN_IF_ERROR(CheckRanks(config, control, expected_world));
  BUTTRESS_ASSIGN_OR_RETURN(const LocalPlace place, FindLocalPlace(control, timeout));
  Status status;
  if (place.rank == 0) {
    const ProcessCounts own{.workers = 0, .ranks = place.size, .job_ranks = control.size()};
    status = ReportProgramChecks(RunChecks(config, CheckScope::kLearner, own, control.rank() == 0),
                                 flags, config);
  }
  std::int64_t failed = status.ok() ? 0 : 1;
  BUTTRESS_RETURN_IF_ERROR(control.AllReduceSum({&failed, 1, DType::kInt64})->Wait(timeout));
  if (!status.ok()) return status;
  if (failed > 0)
    return InvalidArgument(c10::str(failed, " machines of the job lack what they need"));
  // NCCL, and libbuttress_cuda.so with what it needs, show only when they are used.
  return OpenDevice(local, control).status();
}

// Whether a rank ends together with the others: at the end of the run, early or not, or on request.
bool HasLeft(const Status& status) {
  return status.ok() || status.code() == StatusCode::kCancelled || IsNothingToLearn(status);
}

// In a deterministic run the log-probs of unchanged weights are those of the sampler, bit by bit.
Result<std::unique_ptr<Transformer>> LoadModel(const RunSettings& run, ModelDevice device,
                                               const UnitShare& share) {
  auto loaded = Transformer::Load(run.model.path, run.model.dtype, device, share);
  if (!loaded.ok()) return AsInput(loaded.status()).Annotate("run.model.path");
  if (run.deterministic) (*loaded)->ComputeRowWise();
  return loaded;
}

// Checks before anything is loaded whether the ranks can form context groups.
Status CheckContextGroups(const RunConfig& config, int ranks) {
  const std::int64_t size = config.local.learner.context_parallel;
  if (size == 1) return OkStatus();
  const Result<ModelConfig> model = LoadModelConfig(config.run.model.path);
  if (!model.ok()) return AsInput(model.status()).Annotate("run.model.path");
  return CheckContext(*model, size, ranks).Annotate("local.learner.context_parallel");
}

Status TrainOnRank(const RunConfig& config, int expected_world, Collective& control) {
  const LearnerConfig& local = config.local.learner;
  const int rank = control.rank();
  SetLogRole("learner/" + std::to_string(rank));
  BUTTRESS_RETURN_IF_ERROR(CheckRanks(config, control, expected_world));
  BUTTRESS_RETURN_IF_ERROR(CheckContextGroups(config, control.size()));
  BUTTRESS_ASSIGN_OR_RETURN(const auto liveness, WatchRanks(local, control));
  control.Watch(liveness.get());
  BUTTRESS_ASSIGN_OR_RETURN(const Credentials credentials,
                            LoadCredentials(config.local.security, Program::kLearner));
  at::set_num_threads(static_cast<int>(local.threads));
  BUTTRESS_ASSIGN_OR_RETURN(const RankDevice own, OpenDevice(local, control));
  Collective& tensors = own.nccl ? *own.nccl : control;
  tensors.Watch(liveness.get());
  TrainerOptions options{config.run, local, JoinPath(config.local.out, "bad_batch.json"),
                         JoinPath(config.local.out, "learner")};
  BUTTRESS_ASSIGN_OR_RETURN(options.learner.zero, PlanRankMemory(config, own, control));
  const UnitShare share = ShareOf(tensors, options.learner.zero, local.expert_parallel);
  BUTTRESS_ASSIGN_OR_RETURN(const auto model, LoadModel(config.run, own.device, share));
  BUTTRESS_RETURN_IF_ERROR(CheckFinite(model->held_values(),
                                       "the start model " + config.run.model.path,
                                       "take another one, or write its weights again"));
  if (config.run.lora.on())
    BUTTRESS_RETURN_IF_ERROR(
        AsInput(StartAdapters(config.run.lora, config.run.seed, *model)).Annotate("run.lora"));
  std::unique_ptr<Transformer> start_model;
  Transformer* reference = nullptr;
  if (config.run.algorithm.kl_coef > 0) {
    if (!config.run.lora.on()) {
      const bool stored = local.reference == ReferencePlace::kDisk;
      BUTTRESS_ASSIGN_OR_RETURN(start_model, LoadModel(config.run, own.device,
                                                       stored ? UnitShare{.stored = true} : share));
    }
    reference = config.run.lora.on() ? model.get() : start_model.get();
  }
  BUTTRESS_ASSIGN_OR_RETURN(
      const auto context,
      ContextRanks::Form(local.context_parallel, control, tensors,
                         std::chrono::milliseconds(local.collective_timeout_ms)));
  options.context = context.get();
  CoordinatorSource source(config.local, credentials);
  Trainer trainer(options, *model, reference, control, tensors, source);
  Metrics metrics("learner");
  LearnerMetrics learner_metrics(metrics, rank, control.size(), expected_world);
  BUTTRESS_RETURN_IF_ERROR(ServeMetrics(metrics, config, credentials, rank, own.place));
  const Status status =
      LearnerJob(config, control, tensors, *model, trainer, source, learner_metrics, credentials)
          .Run();
  if (HasLeft(status)) {
    if (context != nullptr) BUTTRESS_RETURN_IF_ERROR(context->End());
    if (own.nccl) BUTTRESS_RETURN_IF_ERROR(own.nccl->End());
    if (liveness != nullptr) liveness->Leave();
  }
  control.Watch(nullptr);
  return status;
}

// Runs `body` on the collective. A failure leaves the other ranks waiting in their collectives, so
// the collective is aborted: this process exits at once and mpirun ends the others.
template <class Body>
Status OnCollective(Result<std::unique_ptr<Collective>> made, const std::string& sizes_to_lower,
                    Body body) {
  if (!made.ok()) return made.status();
  Status status;
  try {
    status = body(**made);
  } catch (const std::exception& e) {
    status = StatusOf(e, sizes_to_lower);
  }
  if (!HasLeft(status)) (*made)->Abort();
  return status;
}

std::string SizesToLower(const SftOptions& sft) {
  return c10::str("lower --micro-batch-tokens (", sft.micro_batch_tokens,
                  ") or --micro-batch-mib (", sft.micro_batch_mib,
                  "; 0: no bound), or take --dtype bfloat16");
}

int Report(const Status& status) {
  if (!status.ok())
    Log(status.code() == StatusCode::kCancelled ? kInfo : kError, "learner leaves",
        {{"why", status.message()}});
  return ExitCode(status);
}

void AddSftData(CLI::App& app, SftDataOptions& data) {
  app.add_option("--data", data.path,
                 "JSONL, JSON, CSV, Parquet or Arrow, or a folder of Hugging Face (docs/data.md); "
                 "rows of messages, or of a prompt and a response")
      ->required();
  app.add_option("--messages-field", data.messages_field,
                 "field of a conversation, of which the assistant's turns are trained; dotted "
                 "paths name fields inside others")
      ->capture_default_str();
  app.add_option("--prompt-field", data.prompt_field, "field of the prompt: a text or messages")
      ->capture_default_str();
  app.add_option("--response-field", data.response_field,
                 "field of the response: a text or messages")
      ->capture_default_str();
  app.add_option("--tools-field", data.tools_field, "field of the tools that the template shows")
      ->capture_default_str();
  app.add_flag("--chat-template", data.chat_template,
               "render prompts of text as messages of the user, as run.data.chat_template does");
  app.add_option("--system-prompt", data.system_prompt, "message of the system before them");
  AddTemplateArgument(app, data.template_arguments);
  app.add_option("--max-tokens", data.max_tokens,
                 "tokens of a sequence [the positions of the model]")
      ->check(CLI::NonNegativeNumber);
  AddChoice(app, "--over-long", data.over_long, "sequences of more tokens");
}

void AddSft(CLI::App& app, SftOptions& options) {
  app.add_option("--model", options.model,
                 "Hugging Face folder; random weights if it has no safetensors")
      ->required();
  app.add_option("--out", options.out, "folder to write the model to")->required();
  AddSftData(app, options.data);
  app.add_option("--held-out", options.held_out,
                 "dataset whose loss is shown before, during and after");
  app.add_option("--held-out-share", options.held_out_share,
                 "share of the rows to hold out instead, for example 0.05");
  app.add_option("--eval-every", options.eval_every,
                 "steps between held-out losses [a tenth of --steps]")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--steps", options.steps, "optimizer steps")->capture_default_str();
  app.add_option("--batch", options.batch, "examples per step, over all ranks")
      ->capture_default_str();
  app.add_option("--lr", options.lr, "peak learning rate; falls linearly to a tenth")
      ->capture_default_str();
  app.add_option("--warmup", options.warmup_steps, "steps of linear warm-up")
      ->capture_default_str();
  app.add_option("--seed", options.seed, "seed of weights and order")->capture_default_str();
  AddChoice(app, "--dtype", options.dtype, "parameters and optimizer state");
  AddChoice(app, "--device", options.device, "device of the ranks");
  app.add_flag("--share-gpu", options.share_gpu, "ranks may share a GPU; slow, for tests");
  AddChoice(app, "--zero", options.zero, "what a rank holds a part of");
  app.add_flag(
      "--expert-parallel", options.expert_parallel,
      "with --zero 3: divide the experts of each block over the ranks, which exchange rows");
  app.add_option("--context-parallel", options.context_parallel,
                 "ranks that divide the rows of each pass, for sequences that one cannot hold")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--threads", options.threads, "torch threads per rank")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--micro-batch-tokens", options.micro_batch_tokens,
                 "most tokens of one forward and backward pass")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--micro-batch-mib", options.micro_batch_mib,
                 "most MiB that the planned activations of such a pass take; 0: no bound")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
}

void AddLora(CLI::App& app, LoraConfig& lora) {
  app.add_option("--lora-rank", lora.rank,
                 "train adapters of this rank, and write a folder of peft; 0 = off")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  app.add_option("--lora-alpha", lora.alpha, "the adapters are multiplied by alpha / rank")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  const auto set = [&lora](const std::vector<std::string>& names) {
    lora.targets.clear();
    for (const std::string& name : names) {
      const Result<LoraTarget> target = FindChoice<LoraTarget>(name);
      if (!target.ok()) throw CLI::ValidationError("--lora-targets", target.status().message());
      lora.targets.push_back(*target);
    }
  };
  app.add_option_function<std::vector<std::string>>(
         "--lora-targets", set, "matrices that have adapters: " + DescribeChoices<LoraTarget>())
      ->delimiter(',')
      ->default_str("all");
  app.add_flag("--rslora", lora.rslora, "multiply by alpha / sqrt(rank) instead");
  app.add_option("--adapter", lora.adapter,
                 "folder of peft to continue, of the same rank, alpha, targets and rslora");
}

int Run(int argc, char** argv) {
  CLI::App app("Buttress learner: trains the policy on batches of the coordinator");
  ConfigFlags flags;
  flags.AddTo(app);
  int expected_world = 0;
  app.add_option("--expect-world", expected_world, "refuse to run with another number of ranks");
  SftOptions sft;
  CLI::App& sft_command = *app.add_subcommand(
      "sft", "supervised training on conversations, or on prompts and responses");
  AddSft(sft_command, sft);
  AddLora(sft_command, sft.lora);
  CLI11_PARSE(app, argc, argv);
  InstallShutdownHandlers();
  SetLogRole("learner");
  if (const Status armed = ArmFailpoints(); !armed.ok()) return Report(armed);
  if (sft_command.parsed()) {
    at::set_num_threads(static_cast<int>(sft.threads));
    constexpr std::chrono::minutes kTimeout{1};
    const Status status =
        OnCollective(ReadLaunch().ranks > 1 ? MakeMpiCollective(kTimeout) : MakeLocalCollective(),
                     SizesToLower(sft), [&](Collective& control) { return RunSft(sft, control); });
    if (!status.ok()) std::fprintf(stderr, "sft: %s\n", status.message().c_str());
    return ExitCode(status);
  }
  bool done = false;
  const auto config = LoadByFlags(flags, &done);
  if (!config.ok()) return Report(config.status());
  if (done) return 0;
  const LearnerConfig& local = config->local.learner;
  const Status status =
      OnCollective(MakeControl(local), SizesToLower(local), [&](Collective& control) {
        return flags.check ? CheckOnRank(*config, flags, expected_world, control)
                           : TrainOnRank(*config, expected_world, control);
      });
  return Report(status);
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) {
  try {
    buttress::TightenUmask();
    return buttress::Run(argc, argv);
  } catch (const std::exception& e) {
    return buttress::Report(buttress::StatusOf(e, "use a machine with more memory"));
  }
}
