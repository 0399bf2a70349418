// A worker's transfers of weights through memory that it shares with a server.
#include <absl/strings/escaping.h>
#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "rollout_worker/vllm/ipc_pickle.h"
#include "rollout_worker/vllm/weight_transfer.h"
#include "tests/device/runtime.h"
#include "tests/device/transferred_weights.h"

namespace buttress {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What IPCWeightTransferEngine of vLLM does.
class Mapper {
 public:
  std::string Handle(const std::string& path, const json& body) {
    if (path == "/init_weight_transfer_engine") {
      packed_ = body["init_info"]["packed"] == true;
      return "";
    }
    if (path == "/start_weight_update") {
      active_ = true;
      tensors_.clear();
      chunks_.clear();
      return "";
    }
    if (!active_ || !packed_) return "no update was started";
    if (path == "/update_weights") return Receive(body["update_info"]);
    active_ = false;
    return "";
  }

  const TensorBytes& tensors() const { return tensors_; }

  const std::vector<std::size_t>& chunks() const { return chunks_; }

  const std::string& pickled() const { return pickled_; }

 private:
  std::string Receive(const json& info) {
    if (!absl::Base64Unescape(info["ipc_handles_pickled"].get<std::string>(), &pickled_))
      return "no base64";
    cudaIpcMemHandle_t handle = {};
    const std::string before = std::string("B\x40\0\0\0", 5);  // 64 bytes
    std::memcpy(&handle, pickled_.data() + pickled_.find(before) + before.size(), sizeof handle);
    void* memory = nullptr;
    cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess);
    const auto* const bytes = static_cast<const char*>(test_device::HostOf(memory));
    std::size_t at = 0;
    for (std::size_t i = 0; i < info["names"].size(); ++i) {
      const std::size_t size = info["tensor_sizes"][i];
      if (at % WidthOf(info["dtype_names"][i]) != 0)
        return "storage_offset must be divisible by the size of the dtype";
      tensors_[info["names"][i]] = std::string(bytes + at, size);
      at += size;
    }
    chunks_.push_back(at);
    return "";
  }

  bool packed_ = false;
  bool active_ = false;
  TensorBytes tensors_;
  std::vector<std::size_t> chunks_;
  std::string pickled_;
};

// Tensors of a MiB, of half a MiB less two bytes, and of a few bytes in float32.
TensorBytes WriteMapped(const std::string& folder, char seed) {
  return WriteTensors(
      folder,
      {{"a.weight", "F32", {512, 512}}, {"b.weight", "BF16", {262143}}, {"c.bias", "F32", {3}}},
      seed);
}

// Returns what read_handles.py prints about a pickle.
std::string ReadByPython(const std::string& pickle) {
  const TempDir dir;
  const std::string file = dir.path() + "/pickle", out = dir.path() + "/out";
  std::ofstream(file, std::ios::binary) << pickle;
  const std::string command = "python3 " BUTTRESS_SOURCE_DIR "/tests/device/read_handles.py " +
                              file + " " BUTTRESS_TORCH_FOLDER " > " + out + " 2>&1";
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::ostringstream text;
  text << std::ifstream(out).rdbuf();
  return text.str();
}

class IpcTransferTest : public testing::Test {
 protected:
  ScriptedVllm::Settings Maps() { return TakesTransfers("ipc", mapper_); }

  static VllmConfig ByIpc(const std::string& url) {
    return TransferConfig(url, VllmWeights::kIpc, 1);
  }

  static std::string Refusal(const VllmConfig& config) {
    return MakeVllmEngine(StartModel(), config, PolicyVersion()).status().ToString();
  }

  Mapper mapper_;
};

TEST_F(IpcTransferTest, TheServerHasTheBytesOfEachVersion) {
  WriteMapped(kModelFolder, 1);
  ScriptedVllm server(Maps());
  const auto engine = StartEngine(ByIpc(server.url()));
  ASSERT_NE(engine, nullptr);
  for (std::uint64_t step = 1; step <= 2; ++step) {
    const WeightManifest manifest = TransferredManifest(step);
    const TensorBytes tensors = WriteMapped(manifest.folder, static_cast<char>(step * 7));
    const Status status = engine->UpdateWeights(manifest);
    ASSERT_TRUE(status.ok()) << status.ToString();
    EXPECT_EQ(mapper_.tensors(), tensors);
    EXPECT_EQ(server.weights(), ToString(manifest.version));
  }
  // None is larger than the buffer, and the float32 comes before the odd bfloat16.
  EXPECT_THAT(mapper_.chunks(), ElementsAre(1 << 20, 12 + 262143 * 2));
  const std::vector<std::string> calls = server.control_calls();
  EXPECT_THAT(std::vector(calls.end() - 8, calls.end()),
              ElementsAre("/init_weight_transfer_engine", HasSubstr("/pause?mode=abort"),
                          "/start_weight_update", "/update_weights", "/update_weights",
                          "/finish_weight_update", "/reset_prefix_cache", "/resume"));
  EXPECT_THAT(ReadByPython(mapper_.pickled()), HasSubstr("00000000-0000-0000-0000-000000000001 {"));
}

TEST_F(IpcTransferTest, PythonReadsTheArgumentsOfTorch) {
  const std::string handle = std::string(63, '\x01') + '\n';
  const std::string shown = ReadByPython(
      PickleHandles({{"gpu-a", handle, std::int64_t{3} << 32}, {"gpu-b", handle, 200}}));
  EXPECT_THAT(
      shown,
      AllOf(
          HasSubstr("gpu-a {\"tensor_cls\": \"torch.Tensor\", \"tensor_size\": [12884901888], "
                    "\"tensor_stride\": [1], \"tensor_offset\": 0, "
                    "\"storage_cls\": \"torch.storage.TypedStorage\", \"dtype\": \"torch.uint8\", "
                    "\"storage_device\": 0, \"storage_handle\": \"0101"),
          HasSubstr("010a\", \"storage_size_bytes\": 12884901888, \"storage_offset_bytes\": 0, "
                    "\"requires_grad\": false, \"ref_counter_handle\": \""),
          HasSubstr("\"ref_counter_offset\": 0, \"event_handle\": \"\", "
                    "\"event_sync_required\": false}\ngpu-b {"),
          HasSubstr("\"tensor_size\": [200]")));
}

TEST_F(IpcTransferTest, ATensorThatExceedsTheBufferNamesTheSetting) {
  WriteTensors(kModelFolder, {{"big", "F32", {512, 513}}}, 1);
  ScriptedVllm server(Maps());
  EXPECT_THAT(
      Refusal(ByIpc(server.url())),
      HasSubstr("tensor big has 1050624 bytes; raise local.worker.vllm.transfer.buffer_mib, "
                "1, to 2 at least"));
}

TEST_F(IpcTransferTest, AServerThatCannotMapTheMemoryIsRefused) {
  ScriptedVllm::Settings settings = Maps();
  settings.unpickles = false;
  ScriptedVllm strict(settings), server(Maps());
  EXPECT_THAT(Refusal(ByIpc(strict.url())),
              HasSubstr("start it with VLLM_ALLOW_INSECURE_SERIALIZATION=1, or set file"));
  settings.unpickles = true;
  settings.transfer_backend = "nccl";
  ScriptedVllm other(settings);
  EXPECT_THAT(Refusal(ByIpc(other.url())),
              HasSubstr("start it with --weight-transfer-config '{\"backend\":\"ipc\"}'"));
  VllmConfig config = ByIpc(server.url());
  config.launch.gpus = {2, 3};
  config.launch.tensor_parallel = 2;
  EXPECT_THAT(Refusal(config), HasSubstr("has 1 processes where the run knows 2 of its GPUs"));
  const TransferFacts facts = {
      .native = true, .backend = "ipc", .world_size = 1, .versions = true, .unpickles = true};
  config = ByIpc("http://node:8000");
  EXPECT_THAT(ChooseTransfer(config, facts, false, "http://node:8000").status().message(),
              HasSubstr("its address is not of loopback"));
  EXPECT_FALSE(ChooseTransfer(config, facts, false, "http://127.0.0.1.org:8000").ok());
  config.weights = VllmWeights::kAuto;
  EXPECT_EQ(*ChooseTransfer(config, facts, false, "http://node:8000"), VllmWeights::kFile);
  EXPECT_EQ(*ChooseTransfer(config, facts, false, "http://127.0.0.1:1"), VllmWeights::kIpc);
}

TEST(GpusOfServerTest, TheServersOfAWorkerHaveItsGpusInOrder) {
  VllmConfig config = ConfigOf({"http://127.0.0.1:1", "http://127.0.0.1:2"});
  config.transfer.gpu = 7;
  EXPECT_THAT(GpusOfServer(config, config.servers[1]), ElementsAre(7));
  config.launch.gpus = {4, 5, 2, 3};
  config.launch.tensor_parallel = 2;
  EXPECT_THAT(GpusOfServer(config, config.servers[1]), ElementsAre(2, 3));
}

}  // namespace
}  // namespace buttress
