// A worker's transfers of weights by NCCL into a server whose rank is on another device.
#include <absl/strings/escaping.h>
#include <nccl.h>
#include <torch/types.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <map>
#include <thread>
#include <utility>

#include "lib/config/run_folder.h"
#include "tests/device/runtime.h"
#include "tests/device/transferred_weights.h"

namespace buttress {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kDevice = 1;

std::size_t BytesOf(const json& info, std::size_t i) {
  std::size_t bytes = WidthOf(info["dtype_names"][i]);
  for (const json& extent : info["shapes"][i]) bytes *= extent.get<std::size_t>();
  return bytes;
}

constexpr std::chrono::milliseconds kControl(1000);

// Rank 1: what NCCLWeightTransferEngine of vLLM does on its GPU.
class Receiver {
 public:
  ~Receiver() { Leave(); }

  // Fails the next call of `path`, as vLLM does when it runs out of memory.
  void Fail(const std::string& path) { fails_ = path; }

  // The next update gets no answer in time.
  void Stick() { sticks_ = true; }

  std::string Handle(const std::string& path, const json& body) {
    test_device::SetCurrentDevice(kDevice);
    if (path == fails_) {
      fails_.clear();
      active_ = false;
      return "out of memory";
    }
    if (path == "/init_weight_transfer_engine") return Join(body["init_info"]);
    if (path == "/start_weight_update") {
      if (active_) return "a weight update is already active";
      active_ = true;
      return "";
    }
    if (!active_) return "no update was started";
    if (path == "/update_weights" && std::exchange(sticks_, false)) {
      std::this_thread::sleep_for(3 * kControl);
      return "too late";
    }
    if (path == "/update_weights") return Receive(body["update_info"]);
    active_ = false;
    return "";
  }

  const std::map<std::string, std::string>& tensors() const { return tensors_; }

  int joins() const { return joins_; }

  const std::vector<std::size_t>& chunks() const { return chunks_; }

 private:
  void Leave() {
    if (comm_ != nullptr) ncclCommAbort(comm_);
    comm_ = nullptr;
  }

  std::string Join(const json& info) {
    Leave();
    ++joins_;
    std::string bytes;
    ncclUniqueId id{};
    if (!absl::Base64Unescape(info["nccl_unique_id_b64"].get<std::string>(), &bytes) ||
        bytes.size() != sizeof id.internal)
      return "no unique id";
    if (info["packed"] != true || info.contains("master_address")) return "expected packed";
    limit_ = info["packed_buffer_size_bytes"];
    std::memcpy(id.internal, bytes.data(), bytes.size());
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclCommInitRankConfig(&comm_, info["world_size"], id, info["rank_offset"], &config);
    for (ncclResult_t state = ncclInProgress; state == ncclInProgress;)
      ncclCommGetAsyncError(comm_, &state);
    void* const one = test_device::Allocate(kDevice, 4);
    ncclAllReduce(one, one, 1, ncclFloat32, ncclSum, comm_, stream());
    test_device::StreamOf(kDevice, 0).Synchronize();
    test_device::Free(one);
    return "";
  }

  std::string Receive(const json& info) {
    tensors_.clear();
    chunks_.clear();
    std::string error;
    const std::size_t count = info["names"].size();
    for (std::size_t begin = 0, end = 0; begin < count; begin = end) {
      std::size_t bytes = 0;
      while (end < count && bytes <= limit_) bytes += BytesOf(info, end++);
      chunks_.push_back(bytes);
      const std::string chunk = ReceiveChunk(bytes);
      for (std::size_t i = begin, at = 0; i < end; at += BytesOf(info, i++)) {
        if (at % WidthOf(info["dtype_names"][i]) != 0)
          error = "storage_offset must be divisible by the size of the dtype";
        tensors_[info["names"][i]] = chunk.substr(at, BytesOf(info, i));
      }
    }
    return error;
  }

  std::string ReceiveChunk(std::size_t bytes) {
    void* const memory = test_device::Allocate(kDevice, bytes);
    ncclBroadcast(memory, memory, bytes, ncclUint8, 0, comm_, stream());
    test_device::StreamOf(kDevice, 0).Synchronize();
    std::string chunk(static_cast<const char*>(test_device::HostOf(memory)), bytes);
    test_device::Free(memory);
    return chunk;
  }

  static cudaStream_t stream() {
    return reinterpret_cast<cudaStream_t>(&test_device::StreamOf(kDevice, 0));
  }

  std::string fails_;
  bool sticks_ = false;
  bool active_ = false;
  int joins_ = 0;
  std::size_t limit_ = 0;
  ncclComm_t comm_ = nullptr;
  std::map<std::string, std::string> tensors_;
  std::vector<std::size_t> chunks_;
};

// Two of more than a MiB, a few bytes in float32 behind an odd number in bfloat16, and the rest.
TensorBytes WriteWeights(const std::string& folder, char seed) {
  return WriteTensors(folder,
                      {{"a.weight", "F32", {512, 513}},
                       {"b.bias", "BF16", {5}},
                       {"c.bias", "F32", {3}},
                       {"d.weight", "BF16", {1024, 600}},
                       {"e.bias", "BF16", {3}}},
                      seed);
}

class WeightTransferTest : public testing::Test {
 protected:
  ScriptedVllm::Settings Takes() { return TakesTransfers("nccl", receiver_); }

  static VllmConfig ByNccl(const std::string& url) {
    return TransferConfig(url, VllmWeights::kNccl, 0);
  }

  Receiver receiver_;
};

TEST_F(WeightTransferTest, TheServerHasTheBytesOfEachVersion) {
  WriteWeights(kModelFolder, 1);
  ScriptedVllm server(Takes());
  const auto engine = StartEngine(ByNccl(server.url()));
  ASSERT_NE(engine, nullptr);
  for (std::uint64_t step = 1; step <= 2; ++step) {
    const WeightManifest manifest = TransferredManifest(step);
    const auto tensors = WriteWeights(manifest.folder, static_cast<char>(step * 7));
    const Status status = engine->UpdateWeights(manifest);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(receiver_.tensors(), tensors);
    EXPECT_EQ(server.weights(), ToString(manifest.version));
  }
  EXPECT_EQ(receiver_.joins(), 1);
  EXPECT_THAT(receiver_.chunks(), ElementsAre(512 * 513 * 4, 12 + 10 + 1024 * 600 * 2, 6));
  const std::vector<std::string> calls = server.control_calls();
  EXPECT_THAT(std::vector(calls.end() - 6, calls.end()),
              ElementsAre(HasSubstr("/pause?mode=abort"), "/start_weight_update", "/update_weights",
                          "/finish_weight_update", "/reset_prefix_cache", "/resume"));
}

// The sender does not wait for ranks that will not come.
TEST_F(WeightTransferTest, AFailedUpdateIsRepeatedWhole) {
  WriteWeights(kModelFolder, 1);
  ScriptedVllm server(Takes());
  const auto engine = StartEngine(ByNccl(server.url()));
  ASSERT_NE(engine, nullptr);
  const WeightManifest manifest = TransferredManifest(1);
  const auto tensors = WriteWeights(manifest.folder, 9);
  receiver_.Fail("/update_weights");
  // OK if the server is tried again before this thread wakes up.
  const Status status = engine->UpdateWeights(manifest);
  EXPECT_THAT(status.ToString(), testing::AnyOf("OK", HasSubstr("out of memory")));
  ASSERT_TRUE(WaitUntil([&] { return engine->version() == manifest.version; }));
  EXPECT_EQ(receiver_.tensors(), tensors);
  EXPECT_EQ(receiver_.joins(), 2);
}

TEST_F(WeightTransferTest, AServerThatIsStuckIsRestartedIfTheRunHasStartedIt) {
  WriteWeights(kModelFolder, 1);
  for (const bool launched : {true, false}) {
    const TempDir out;
    ScriptedVllm server(Takes());
    VllmConfig config = ByNccl(server.url());
    config.control_ms = kControl.count();
    config.launch.binary = launched ? "vllm" : "";
    receiver_.Stick();
    const auto engine = MakeVllmEngine(StartModel(), config, PolicyVersion(), nullptr, false,
                                       InFlight::kRecompute, out.path());
    EXPECT_EQ(std::filesystem::exists(
                  VllmRestartPath(out.path(), server.url().substr(server.url().rfind(':') + 1))),
              launched);
    EXPECT_EQ(engine.ok(), launched) << engine.status().ToString();
  }
}

TEST_F(WeightTransferTest, AutoTakesTheTransferOfAServerThatWasStartedForIt) {
  WriteWeights(kModelFolder, 3);
  ScriptedVllm server(Takes());
  VllmConfig config = ByNccl(server.url());
  config.weights = VllmWeights::kAuto;
  ASSERT_NE(StartEngine(config), nullptr);
  EXPECT_EQ(receiver_.joins(), 1);
}

TEST_F(WeightTransferTest, AGpuThatIsNotThereIsRefused) {
  ScriptedVllm server(Takes());
  VllmConfig config = ByNccl(server.url());
  config.transfer.gpu = 4;
  const auto engine = MakeVllmEngine(StartModel(), config, PolicyVersion());
  EXPECT_THAT(engine.status().message(), HasSubstr("the worker sees 4 GPUs"));
}

}  // namespace
}  // namespace buttress
