// The device for tests, and the faults that it is there to show: reads on the host, missing waits,
// and tensors of another device.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <torch/types.h>
#include <torch/utils.h>

#include <cmath>
#include <csignal>
#include <future>
#include <memory>

#include "lib/collectives/collective.h"
#include "tests/device/runtime.h"

namespace buttress {
namespace {

constexpr std::chrono::seconds kTimeout{20};
const at::Device kFirst(at::kPrivateUse1, 0);
const at::Device kSecond(at::kPrivateUse1, 1);

// Keeps a stream from working while it lives; by default that of the first device.
class Gate {
 public:
  explicit Gate(test_device::Stream& stream = test_device::StreamOf(0, 0)) {
    stream.Enqueue([open = open_.get_future().share()] { open.wait(); });
  }

  ~Gate() { open_.set_value(); }

  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

 private:
  std::promise<void> open_;
};

c10::Stream SideStream() {
  return c10::impl::VirtualGuardImpl(at::kPrivateUse1).getStreamFromGlobalPool(kFirst);
}

at::Tensor Ones() { return at::ones({1000}, kFirst); }

double FirstOf(const at::Tensor& tensor) { return tensor.flatten()[0].item<double>(); }

TEST(DeviceTest, TheHostCanNeitherReadNorWriteTheMemory) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        const at::Tensor tensor = Ones();
        volatile float value = *static_cast<const float*>(tensor.const_data_ptr());
        static_cast<void>(value);
      },
      testing::KilledBySignal(SIGSEGV), "");
  EXPECT_EXIT(*static_cast<float*>(Ones().mutable_data_ptr()) = 1, testing::KilledBySignal(SIGSEGV),
              "");
}

TEST(DeviceTest, TheHostContinuesAndAStreamThatDoesNotWaitReadsOldValues) {
  const at::Tensor values = Ones();
  EXPECT_EQ(FirstOf(values), 1);
  const c10::Stream side = SideStream();
  c10::Event filled(at::kPrivateUse1);
  const Gate gate;
  values.fill_(2);
  filled.record(c10::impl::VirtualGuardImpl(at::kPrivateUse1).getStream(kFirst));
  EXPECT_FALSE(filled.query());
  const c10::StreamGuard guard(side);
  EXPECT_EQ(FirstOf(values), 1);
}

TEST(DeviceTest, AStreamThatWaitsForAnEventReadsTheNewValues) {
  const at::Tensor values = Ones();
  c10::Event filled(at::kPrivateUse1);
  const c10::Stream side = SideStream();
  {
    const Gate gate;
    values.fill_(2);
    filled.record(c10::impl::VirtualGuardImpl(at::kPrivateUse1).getStream(kFirst));
    filled.block(side);
  }
  const c10::StreamGuard guard(side);
  EXPECT_EQ(FirstOf(values), 2);
}

TEST(DeviceTest, OnlyACopyToPinnedMemoryLetsTheHostContinue) {
  const at::Tensor pinned = at::zeros({1000}, at::TensorOptions().pinned_memory(true));
  const at::Tensor values = Ones();
  EXPECT_TRUE(pinned.is_pinned());
  EXPECT_EQ(FirstOf(values.cpu()), 1);
  {
    const Gate gate;
    pinned.copy_(values, /*non_blocking=*/true);
    EXPECT_EQ(FirstOf(pinned), 0);
  }
  at::accelerator::synchronizeDevice(0);
  EXPECT_EQ(FirstOf(pinned), 1);
}

TEST(DeviceTest, AStreamThatIsNotRecordedReadsMemoryThatHasBeenFreed) {
  for (const bool recorded : {false, true}) {
    at::Tensor values = Ones(), sum;
    const c10::Stream side = SideStream();
    at::accelerator::synchronizeDevice(0);
    auto gate = std::make_unique<Gate>(*static_cast<test_device::Stream*>(side.native_handle()));
    {
      const c10::StreamGuard guard(side);
      sum = values.sum();
    }
    if (recorded) values.record_stream(side);
    values.reset();
    if (!recorded) test_device::StreamOf(0, 0).Synchronize();
    gate.reset();
    const c10::StreamGuard guard(side);
    EXPECT_EQ(std::isnan(FirstOf(sum)), !recorded);
  }
}

TEST(DeviceTest, TensorsOfTwoDevicesAreRefused) {
  EXPECT_EQ(at::accelerator::deviceCount(), 4);
  const at::Tensor other = at::ones({1000}, kSecond);
  EXPECT_THROW(Ones() + other, c10::Error);
  EXPECT_THROW(Ones() + at::ones({1000}), c10::Error);
  EXPECT_EQ(FirstOf(Ones() + other.to(kFirst)), 2);
  EXPECT_EQ(FirstOf(Ones() + at::scalar_tensor(2)), 3);
}

TEST(DeviceTest, CountsWhatTheHostWaitsFor) {
  const at::Tensor values = Ones();
  test_device::TakeHostWaits();
  values.add_(1);
  const at::Tensor pinned = at::empty({1000}, at::TensorOptions().pinned_memory(true));
  pinned.copy_(values, /*non_blocking=*/true);
  EXPECT_EQ(test_device::TakeHostWaits(), "none");
  at::accelerator::synchronizeDevice(0);
  const at::Tensor host = values.cpu();
  EXPECT_EQ(FirstOf(values), 2);
  EXPECT_EQ(at::nonzero(values).numel(), 1000);
  c10::Event event(at::kPrivateUse1);
  event.record(SideStream());
  event.synchronize();
  EXPECT_EQ(test_device::TakeHostWaits(), "event 1 device 1 copy 1 scalar 1 shape 1");
}

TEST(DeviceTest, AnErrorOfAKernelShowsWhereTheHostWaits) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto run = [] {
    const at::Tensor rows =
        Ones().index_select(0, torch::tensor(std::vector<std::int64_t>{1000}).to(kFirst));
    try {
      at::accelerator::synchronizeDevice(0);
    } catch (const std::exception&) {
      std::_Exit(3);
    }
    std::_Exit(0);
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(3), "");
}

// Values of one training step by operators.
std::vector<at::Tensor> Train(at::Device device) {
  auto generator = at::detail::createCPUGenerator(7);
  const at::Tensor table = at::randn({13, 16}, generator).to(device).requires_grad_(true);
  const at::Tensor weight =
      at::randn({13, 16}, generator).to(at::kBFloat16).to(device).requires_grad_(true);
  const auto tokens =
      torch::tensor(std::vector<std::int64_t>{1, 5, 1, 12, 0, 5}, at::kLong).to(device);
  const at::Tensor hidden = at::silu(table.index_select(0, tokens)).to(at::kBFloat16);
  const at::Tensor logits = at::linear(hidden, weight).to(at::kFloat);
  const at::Tensor loss = at::cross_entropy_loss(logits, tokens);
  loss.backward();
  const auto [rows, row_of_token, counts] = at::_unique2(tokens, true, true);
  const at::NoGradGuard no_grad;
  at::Tensor sums = at::zeros({13, 16}, table.options().requires_grad(false));
  sums.index_add_(0, tokens, table.grad().index_select(0, tokens));
  at::_fused_adamw_({sums}, {table.grad()}, {at::zeros_like(sums)}, {at::zeros_like(sums)}, {},
                    at::full({}, 1.0, sums.options()), 0.1, 0.9, 0.999, 0.1, 1e-8, false, false);
  return {loss, table.grad(), weight.grad(), rows, row_of_token, sums, at::cat({sums, sums})};
}

TEST(DeviceTest, OperatorsGiveTheBitsOfTheCpu) {
  const auto on_cpu = Train(at::kCPU), on_device = Train(kFirst);
  for (std::size_t i = 0; i < on_cpu.size(); ++i) {
    EXPECT_TRUE(on_device[i].is_privateuseone());
    EXPECT_TRUE(at::equal(on_cpu[i], on_device[i].cpu())) << "value " << i;
  }
}

class DeviceGroupTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = MakeNcclCollective(*control_, 0, kTimeout);
    ASSERT_TRUE(made.ok()) << made.status().ToString();
    group_ = *std::move(made);
  }

  static Buffer BufferOn(const at::Tensor& tensor) {
    return {tensor.mutable_data_ptr(), tensor.numel(), DType::kFloat32, DeviceKind::kDevice};
  }

  const std::unique_ptr<Collective> control_ = MakeLocalCollective();
  std::unique_ptr<Collective> group_;
};

TEST_F(DeviceGroupTest, ACollectiveDoesNotStartBeforeTheWorkOfTheCallersStream) {
  const at::Tensor in = Ones(), out = Ones();
  at::accelerator::synchronizeDevice(0);
  const Gate gate;
  in.fill_(2);
  const Status status =
      group_->AllGather(BufferOn(in), BufferOn(out))->Wait(std::chrono::milliseconds(50));
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
}

TEST_F(DeviceGroupTest, TheCallersStreamAndNotTheHostWaitsForAJoinedCollective) {
  const at::Tensor in = Ones(), out = Ones();
  at::accelerator::synchronizeDevice(0);
  {
    const Gate gate;
    in.fill_(2);
    ASSERT_TRUE(group_->AllGather(BufferOn(in), BufferOn(out))->Join(kTimeout).ok());
    out.add_(1);
  }
  EXPECT_EQ(FirstOf(out), 3);
}

TEST_F(DeviceGroupTest, ASendWithoutAWaitForTheCallersStreamSendsOldValues) {
  const at::Tensor in = Ones(), out = Ones();
  at::accelerator::synchronizeDevice(0);
  ncclUniqueId id{};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  ncclComm_t comm = nullptr;
  ncclGetUniqueId(&id);
  ncclCommInitRankConfig(&comm, 1, id, 0, &config);
  for (ncclResult_t state = ncclInProgress; state == ncclInProgress;)
    ncclCommGetAsyncError(comm, &state);
  const c10::Stream side = SideStream();
  const Gate gate;
  in.fill_(2);
  const auto stream = static_cast<cudaStream_t>(side.native_handle());
  EXPECT_EQ(
      ncclAllGather(in.const_data_ptr(), out.mutable_data_ptr(), 1000, ncclFloat32, comm, stream),
      ncclSuccess);
  const c10::StreamGuard guard(side);
  EXPECT_EQ(FirstOf(out), 1);
  ncclCommAbort(comm);
}

TEST_F(DeviceGroupTest, ABufferOfAnotherDeviceThanThatOfTheRankIsRefused) {
  const Status status = group_->AllReduceSum(BufferOn(at::ones({10}, kSecond)))->Wait(kTimeout);
  EXPECT_THAT(status.message(), testing::HasSubstr("a buffer of device 1 for a rank on device 0"));
}

}  // namespace
}  // namespace buttress
