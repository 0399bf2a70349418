#include "learner/output/weight_sync.h"

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/StringUtil.h>
#include <torch/types.h>

#include <chrono>
#include <utility>

#include "lib/base/os/clock.h"
#include "lib/base/os/failpoint.h"
#include "lib/policy/exception_status.h"
#include "lib/policy/transformer.h"

namespace buttress {
namespace {

NamedTensors CopyToPinned(const NamedTensors& parameters) {
  const at::NoGradGuard no_grad;
  NamedTensors copies;
  for (const auto& [name, tensor] : parameters) {
    const auto options = at::TensorOptions().dtype(tensor.scalar_type()).pinned_memory(true);
    at::Tensor copy = at::empty(tensor.sizes(), options);
    copy.copy_(tensor, /*non_blocking=*/true);
    copies.emplace_back(name, std::move(copy));
  }
  return copies;
}

constexpr std::chrono::milliseconds kTick{200};
// The limit for writing and announcing one version; the announcement has a shorter one.
constexpr std::chrono::minutes kMaxPublish{10};

Status TooSlow() {
  return DeadlineExceeded(
      "a policy version was not published within 10 minutes; check the disk of <out>/weights");
}

}  // namespace

ParameterCopy ParameterCopy::Start(const NamedTensors& parameters) {
  ParameterCopy started;
  const at::Device device = parameters.front().second.device();
  if (device.is_cpu()) {
    started.in_place_ = true;
    for (const auto& [name, tensor] : parameters)
      started.copies_.emplace_back(name, tensor.detach());
    return started;
  }
  const c10::impl::VirtualGuardImpl backend(device.type());
  const c10::Stream side = backend.getStreamFromGlobalPool(device);
  c10::Event computed(device.type());
  computed.record(backend.getStream(device));
  computed.block(side);
  const c10::StreamGuard guard(side);
  started.copies_ = CopyToPinned(parameters);
  started.done_.emplace(device.type());
  started.done_->record(side);
  return started;
}

ParameterCopy ParameterCopy::Of(NamedTensors copies) {
  ParameterCopy complete;
  complete.copies_ = std::move(copies);
  return complete;
}

void ParameterCopy::BlockStream() const {
  if (!done_) return;
  done_->block(c10::impl::VirtualGuardImpl(done_->device_type()).getStream(done_->device()));
}

const NamedTensors& ParameterCopy::Wait() const {
  if (done_) done_->synchronize();
  return copies_;
}

std::vector<PlannedFile> FilesByRank::own() const {
  std::vector<PlannedFile> own;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (writers[i] == rank) own.push_back(files[i]);
  }
  return own;
}

WeightSync::WeightSync(std::string folder, FilesByRank files)
    : WeightSync(std::move(folder), std::move(files), nullptr, nullptr) {}

WeightSync::WeightSync(std::string folder, FilesByRank files, WeightPublisher* publisher,
                       Announce announce)
    : folder_(std::move(folder)),
      files_(std::move(files)),
      publisher_(publisher),
      announce_(std::move(announce)),
      thread_([this] { Loop(); }) {}

WeightSync::~WeightSync() {
  queue_.Close();
  thread_.join();
}

Status WeightSync::Publish(const PolicyVersion& version, ParameterCopy parameters,
                           std::vector<Canary> canaries) {
  BUTTRESS_RETURN_IF_ERROR(Drain());
  Snapshot snapshot{version, std::make_shared<const ParameterCopy>(std::move(parameters)),
                    std::move(canaries)};
  copy_ = snapshot.parameters;
  {
    MutexLock lock(mutex_);
    ++pending_;
    reading_ = snapshot.parameters->in_place();
  }
  BUTTRESS_CHECK(queue_.Push(snapshot, kTick), "the queue of an idle WeightSync has room");
  return OkStatus();
}

Status WeightSync::BeforeUpdate() {
  if (const auto copy = copy_.lock()) copy->BlockStream();
  MutexLock lock(mutex_);
  const auto read = [this]() REQUIRES(mutex_) { return !reading_; };
  const double began = MonotonicSeconds();
  const bool done = changed_.WaitFor(mutex_, kMaxPublish, read);
  seconds_waited_ += MonotonicSeconds() - began;
  return done ? OkStatus() : TooSlow();
}

void WeightSync::DoneReading() {
  MutexLock lock(mutex_);
  reading_ = false;
  changed_.NotifyAll();
}

Status WeightSync::Drain() {
  MutexLock lock(mutex_);
  const double began = MonotonicSeconds();
  const bool idle = changed_.WaitFor(mutex_, kMaxPublish, [this] { return pending_ == 0; });
  seconds_waited_ += MonotonicSeconds() - began;
  return idle ? failure_ : TooSlow();
}

void WeightSync::Loop() {
  for (;;) {
    auto snapshot = queue_.Pop(kTick);
    if (!snapshot) {
      if (queue_.closed()) return;
      continue;
    }
    Status status;
    try {
      status = Send(*std::move(snapshot));
    } catch (const std::exception& e) {
      status = StatusOf(e, "use a machine with more memory");
    }
    status = status.Annotate(c10::str("rank ", files_.rank, " publishes weights"));
    DoneReading();
    MutexLock lock(mutex_);
    --pending_;
    if (failure_.ok()) failure_ = status;
    changed_.NotifyAll();
  }
}

Status WeightSync::Send(Snapshot snapshot) {
  const std::string folder = VersionFolder(folder_, snapshot.version);
  BUTTRESS_ASSIGN_OR_RETURN(
      std::vector<WeightFile> written,
      WriteWeightFiles(folder, files_.own(), BytesByName(snapshot.parameters->Wait())));
  snapshot.parameters.reset();
  DoneReading();
  if (publisher_ == nullptr) {
    for (const WeightFile& file : written) {
      Failpoint("weight_file_given");
      BUTTRESS_RETURN_IF_ERROR(GiveWritten(folder, file));
    }
    return OkStatus();
  }
  BUTTRESS_RETURN_IF_ERROR(AddFilesOfOthers(folder, written));
  BUTTRESS_ASSIGN_OR_RETURN(const WeightManifest manifest,
                            publisher_->Commit(written, std::move(snapshot.canaries)));
  {
    const MutexLock lock(mutex_);
    unchanged_ = manifest.version.digest == digest_ ? unchanged_ + 1 : 0;
    digest_ = manifest.version.digest;
  }
  return announce_(manifest);
}

// A rank that fails ends the job, which closes the queue.
Status WeightSync::AddFilesOfOthers(const std::string& folder,
                                    std::vector<WeightFile>& written) const {
  for (std::size_t i = 0; i < files_.files.size(); ++i) {
    if (files_.writers[i] == files_.rank) continue;
    Result<WeightFile> file =
        AwaitWritten(folder, files_.files[i].name, kMaxPublish, [this] { return queue_.closed(); });
    if (!file.ok()) return file.status().Annotate(c10::str("rank ", files_.writers[i]));
    written.push_back(*std::move(file));
  }
  return OkStatus();
}

}  // namespace buttress
