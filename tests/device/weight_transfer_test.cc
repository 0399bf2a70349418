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
#include "lib/weights/safetensors.h"
#include "lib/weights/weight_files.h"
#include "tests/device/runtime.h"
#include "tests/unit/rollout_worker/vllm/vllm_fixture.h"

namespace buttress {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int kDevice = 1;
constexpr std::size_t kMiB = std::size_t{1} << 20;

std::size_t BytesOf(const json& info, std::size_t i) {
  std::size_t bytes = info["dtype_names"][i] == "float32" ? 4 : 2;
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
    const std::size_t count = info["names"].size();
    for (std::size_t begin = 0, end = 0; begin < count; begin = end) {
      std::size_t bytes = 0;
      while (end < count && bytes <= limit_) bytes += BytesOf(info, end++);
      chunks_.push_back(bytes);
      const std::string chunk = ReceiveChunk(bytes);
      for (std::size_t i = begin, at = 0; i < end; at += BytesOf(info, i++))
        tensors_[info["names"][i]] = chunk.substr(at, BytesOf(info, i));
    }
    return "";
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

// Three tensors, of which the first two are more than a MiB. Their bytes depend on `seed`.
std::map<std::string, std::string> WriteWeights(const std::string& folder, char seed) {
  const std::vector<SafetensorsWriter::Declared> table = {
      {"a.weight", "F32", {512, 256}}, {"b.weight", "BF16", {1024, 600}}, {"c.bias", "F32", {3}}};
  std::map<std::string, std::string> tensors;
  for (const auto& tensor : table) {
    std::string& bytes = tensors[tensor.name];
    bytes.resize(DataBytes(tensor));
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<char>(seed + static_cast<char>(i % 251));
  }
  const auto written = WriteWeightFiles(folder, DivideWeights(table), [&](const std::string& name) {
    return std::string_view(tensors.at(name));
  });
  EXPECT_TRUE(written.ok()) << written.status().ToString();
  return tensors;
}

class WeightTransferTest : public testing::Test {
 protected:
  ScriptedVllm::Settings Takes() {
    ScriptedVllm::Settings settings;
    settings.transfer = [this](const std::string& path, const json& body) {
      return receiver_.Handle(path, body);
    };
    return settings;
  }

  static VllmConfig ByNccl(const std::string& url) {
    VllmConfig config = ConfigOf({url});
    config.weights = VllmWeights::kNccl;
    config.transfer.buffer_mib = 1;
    config.control_ms = 30000;
    return config;
  }

  // A version that is named by its tag, as weights are that arrived by a transfer.
  static WeightManifest Version(std::uint64_t step) {
    WeightManifest manifest = ManifestOf(step);
    manifest.canaries = ScriptedVllm::Canaries(ToString(manifest.version));
    return manifest;
  }

  Receiver receiver_;
};

TEST_F(WeightTransferTest, TheServerHasTheBytesOfEachVersion) {
  WriteWeights(kModelFolder, 1);
  ScriptedVllm server(Takes());
  const auto engine = StartEngine(ByNccl(server.url()));
  ASSERT_NE(engine, nullptr);
  for (std::uint64_t step = 1; step <= 2; ++step) {
    const WeightManifest manifest = Version(step);
    const auto tensors = WriteWeights(manifest.folder, static_cast<char>(step * 7));
    const Status status = engine->UpdateWeights(manifest);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(receiver_.tensors(), tensors);
    EXPECT_EQ(server.weights(), ToString(manifest.version));
  }
  EXPECT_EQ(receiver_.joins(), 1);
  EXPECT_THAT(receiver_.chunks(), ElementsAre(512 * 256 * 4 + 1024 * 600 * 2, 12));
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
  const WeightManifest manifest = Version(1);
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
