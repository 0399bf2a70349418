#include "tests/unit/collectives/collective_suite.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include "lib/base/text/random.h"
#include "lib/collectives/launcher.h"

namespace buttress {

SuiteBackend& TheBackend() {
  static SuiteBackend backend;
  return backend;
}

namespace {

constexpr std::chrono::seconds kTimeout{20};

template <class T>
struct DTypeFor;

template <>
struct DTypeFor<float> {
  static constexpr DType value = DType::kFloat32;
};

template <>
struct DTypeFor<double> {
  static constexpr DType value = DType::kFloat64;
};

template <>
struct DTypeFor<std::int32_t> {
  static constexpr DType value = DType::kInt32;
};

template <>
struct DTypeFor<std::int64_t> {
  static constexpr DType value = DType::kInt64;
};

template <>
struct DTypeFor<std::uint16_t> {  // the bits of a bfloat16
  static constexpr DType value = DType::kBFloat16;
};

// A bfloat16 from the bits that the buffers hold, and back: to nearest, ties to even.
float FromBFloat16(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

std::uint16_t ToBFloat16(float value) {
  std::uint32_t wide;
  std::memcpy(&wide, &value, sizeof wide);
  return static_cast<std::uint16_t>((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}

template <class T>
T ValueOf(double value) {
  if constexpr (std::is_same_v<T, std::uint16_t>) return ToBFloat16(static_cast<float>(value));
  return static_cast<T>(value);
}

// What a rank puts into a sum: numbers of such different sizes that the order of the sum shows.
template <class T>
std::vector<T> ValuesOfRank(int rank, std::size_t count) {
  RandomStream random({static_cast<std::uint64_t>(rank), count});
  std::vector<T> values(count);
  for (T& value : values) value = ValueOf<T>(std::exp(10 * random.Normal()) * random.Normal());
  return values;
}

// The sum over `size` ranks from rank 0 upwards; of bfloat16 in float32, rounded once.
template <class T>
std::vector<T> SumInRankOrder(int size, std::size_t count) {
  std::vector<T> sum = ValuesOfRank<T>(0, count);
  std::vector<float> wide;
  if constexpr (std::is_same_v<T, std::uint16_t>)
    std::transform(sum.begin(), sum.end(), std::back_inserter(wide), FromBFloat16);
  for (int rank = 1; rank < size; ++rank) {
    const std::vector<T> next = ValuesOfRank<T>(rank, count);
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (std::is_same_v<T, std::uint16_t>)
        sum[i] = ToBFloat16(wide[i] += FromBFloat16(next[i]));
      else
        sum[i] += next[i];
    }
  }
  return sum;
}

class CollectiveSuite : public testing::Test {
 protected:
  Collective& group() { return *TheBackend().group; }

  int rank() { return group().rank(); }

  int size() { return group().size(); }

  template <class T>
  Buffer Put(const std::vector<T>& values) {
    SuiteMemory& memory = *TheBackend().memory;
    void* data = memory.Upload(values.data(), values.size() * sizeof(T));
    return {data, static_cast<std::int64_t>(values.size()), DTypeFor<T>::value, memory.device()};
  }

  template <class T>
  std::vector<T> Get(const Buffer& buffer) {
    std::vector<T> values(static_cast<std::size_t>(buffer.count));
    TheBackend().memory->Download(values.data(), buffer.data, values.size() * sizeof(T));
    return values;
  }

  // Returns the sum of f(r) over the ranks r.
  template <class F>
  std::int64_t SumOverRanks(F f) {
    std::int64_t sum = 0;
    for (int r = 0; r < size(); ++r) sum += f(r);
    return sum;
  }

  void ExpectEqualOnAllRanks(const std::string& bytes) {
    const auto first = BroadcastBytes(*TheBackend().control, bytes, 0, kTimeout);
    ASSERT_TRUE(first.ok()) << first.status().ToString();
    EXPECT_TRUE(*first == bytes) << "rank " << rank() << " differs from rank 0";
  }

  // Sums one buffer by each of the two ways, all posted before the first is waited for.
  template <class T>
  void CheckSumsInRankOrder(std::size_t part) {
    const std::size_t count = part * static_cast<std::size_t>(size());
    const std::vector<T> values = ValuesOfRank<T>(rank(), count);
    const Buffer reduced = Put(values), in = Put(values), gathered = Put(values);
    const Buffer own = Put(std::vector<T>(part));
    const auto all_reduce = group().AllReduceSum(reduced);
    const auto reduce_scatter = group().ReduceScatterSum(in, own);
    ASSERT_TRUE(all_reduce->Wait(kTimeout).ok());
    ASSERT_TRUE(reduce_scatter->Wait(kTimeout).ok());
    ASSERT_TRUE(group().AllGather(own, gathered)->Wait(kTimeout).ok());
    const std::vector<T> expected = SumInRankOrder<T>(size(), count);
    EXPECT_TRUE(Get<T>(reduced) == expected) << part << " values a rank, all-reduce";
    EXPECT_TRUE(Get<T>(gathered) == expected) << part << " values a rank, reduce-scatter";
  }

  template <class T>
  void CheckExactSums() {
    std::vector<T> values;
    for (int i = 0; i < 1000; ++i) values.push_back(static_cast<T>(i % 100 + rank()));
    const Buffer buffer = Put(values);
    ASSERT_TRUE(group().AllReduceSum(buffer)->Wait(kTimeout).ok());
    const auto sums = Get<T>(buffer);
    for (int i = 0; i < 1000; ++i) {
      ASSERT_EQ(sums[static_cast<std::size_t>(i)],
                static_cast<T>(SumOverRanks([&](int r) { return i % 100 + r; })))
          << "element " << i;
    }
  }
};

TEST_F(CollectiveSuite, AllReduceSumsSmallIntegersExactlyInEveryDType) {
  CheckExactSums<float>();
  CheckExactSums<double>();
  CheckExactSums<std::int32_t>();
  CheckExactSums<std::int64_t>();
}

TEST_F(CollectiveSuite, AllReduceSumsBFloat16) {
  const Buffer buffer =
      Put(std::vector<std::uint16_t>(33, ToBFloat16(static_cast<float>(rank() + 1))));
  ASSERT_TRUE(group().AllReduceSum(buffer)->Wait(kTimeout).ok());
  const auto expected = static_cast<float>(SumOverRanks([](int r) { return r + 1; }));
  EXPECT_EQ(Get<std::uint16_t>(buffer), std::vector<std::uint16_t>(33, ToBFloat16(expected)));
}

TEST_F(CollectiveSuite, SumsOfRealNumbersHaveEqualBitsOnAllRanks) {
  for (const std::size_t count : {1u, 7u, 1000u, 200000u}) {
    RandomStream random({static_cast<std::uint64_t>(rank()), count});
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(random.Normal());
    const Buffer buffer = Put(values);
    ASSERT_TRUE(group().AllReduceSum(buffer)->Wait(kTimeout).ok());
    const auto sums = Get<float>(buffer);
    ExpectEqualOnAllRanks(
        std::string(reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof(float)));
  }
}

TEST_F(CollectiveSuite, SumsOnCpusAreMadeInRankOrder) {
  if (TheBackend().memory->device() != DeviceKind::kCpu) GTEST_SKIP() << "NCCL has its own order";
  for (const std::size_t part : {1u, 7u, 1000u, 100003u}) {
    CheckSumsInRankOrder<float>(part);
    CheckSumsInRankOrder<double>(part);
    CheckSumsInRankOrder<std::uint16_t>(part);
  }
}

TEST_F(CollectiveSuite, SumsOfCountsThatTheRanksDoNotDivideAreMadeInRankOrder) {
  if (TheBackend().memory->device() != DeviceKind::kCpu) GTEST_SKIP() << "NCCL has its own order";
  for (const std::size_t count : {1u, 5u, 4099u, 100003u}) {
    const Buffer buffer = Put(ValuesOfRank<float>(rank(), count));
    ASSERT_TRUE(group().AllReduceSum(buffer)->Wait(kTimeout).ok());
    EXPECT_TRUE(Get<float>(buffer) == SumInRankOrder<float>(size(), count)) << count << " values";
  }
}

TEST_F(CollectiveSuite, ConcurrentCallsKeepTheirOrder) {
  std::vector<Buffer> buffers;
  std::vector<std::unique_ptr<Work>> works;
  for (int i = 0; i < 8; ++i)
    buffers.push_back(Put(std::vector<float>(1000, static_cast<float>(i))));
  for (const Buffer& buffer : buffers) works.push_back(group().AllReduceSum(buffer));
  for (const auto& work : works) ASSERT_TRUE(work->Wait(kTimeout).ok());
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(Get<float>(buffers[static_cast<std::size_t>(i)])[999],
              static_cast<float>(i * size()));
}

TEST_F(CollectiveSuite, AJoinedResultIsReadyForWhatTheCallerDoesOnTheDeviceNext) {
  for (int i = 0; i < 3; ++i) {
    const Buffer in = Put(std::vector<std::int64_t>(20000, i));
    const Buffer out = Put(std::vector<std::int64_t>(20000 * static_cast<std::size_t>(size())));
    ASSERT_TRUE(group().AllReduceSum(in)->Join(kTimeout).ok());
    ASSERT_TRUE(group().AllGather(in, out)->Join(kTimeout).ok());
    EXPECT_EQ(Get<std::int64_t>(out),
              std::vector<std::int64_t>(static_cast<std::size_t>(out.count), i * size()));
  }
}

TEST_F(CollectiveSuite, ReduceScatterGivesEachRankItsPartOfTheSum) {
  std::vector<std::int64_t> values;
  for (int r = 0; r < size(); ++r) values.insert(values.end(), 5, 10 * r + rank());
  const Buffer in = Put(values);
  const Buffer out = Put(std::vector<std::int64_t>(5, -1));
  ASSERT_TRUE(group().ReduceScatterSum(in, out)->Wait(kTimeout).ok());
  EXPECT_EQ(Get<std::int64_t>(out),
            std::vector<std::int64_t>(5, SumOverRanks([this](int r) { return 10 * rank() + r; })));
}

TEST_F(CollectiveSuite, AllGatherConcatenatesTheRanksInOrder) {
  const Buffer in = Put(std::vector<std::int32_t>{rank(), -rank()});
  const Buffer out = Put(std::vector<std::int32_t>(static_cast<std::size_t>(2 * size())));
  ASSERT_TRUE(group().AllGather(in, out)->Wait(kTimeout).ok());
  std::vector<std::int32_t> expected;
  for (int r = 0; r < size(); ++r) expected.insert(expected.end(), {r, -r});
  EXPECT_EQ(Get<std::int32_t>(out), expected);
}

TEST_F(CollectiveSuite, AllToAllExchangesThePartsOfTheRanks) {
  std::vector<std::int32_t> values, expected;
  for (int r = 0; r < size(); ++r) {
    values.insert(values.end(), 3, 100 * rank() + r);
    expected.insert(expected.end(), 3, 100 * r + rank());
  }
  const Buffer in = Put(values);
  const Buffer out = Put(std::vector<std::int32_t>(values.size(), -1));
  ASSERT_TRUE(group().AllToAll(in, out)->Wait(kTimeout).ok());
  EXPECT_EQ(Get<std::int32_t>(out), expected);
}

// Rank a gives rank b a + 2b values, so that rank 0 gives itself none.
TEST_F(CollectiveSuite, AllToAllExchangesPartsOfDifferentSizes) {
  std::vector<std::int32_t> values, expected;
  std::vector<std::int64_t> sent, received;
  for (int r = 0; r < size(); ++r) {
    sent.push_back(rank() + 2 * r);
    received.push_back(r + 2 * rank());
    values.insert(values.end(), static_cast<std::size_t>(sent.back()), 100 * rank() + r);
    expected.insert(expected.end(), static_cast<std::size_t>(received.back()), 100 * r + rank());
  }
  values.push_back(-1);  // no part: of one rank, nothing else is there
  Buffer in = Put(values);
  Buffer out = Put(std::vector<std::int32_t>(expected.size() + 1, -1));
  --in.count;
  --out.count;
  ASSERT_TRUE(group().AllToAll(in, sent, out, received)->Wait(kTimeout).ok());
  EXPECT_EQ(Get<std::int32_t>(out), expected);
}

TEST_F(CollectiveSuite, BroadcastCopiesTheBufferOfTheRoot) {
  for (int root = 0; root < size(); ++root) {
    const Buffer buffer = Put(std::vector<double>(100, 1.5 * rank()));
    ASSERT_TRUE(group().Broadcast(buffer, root)->Wait(kTimeout).ok());
    EXPECT_EQ(Get<double>(buffer), std::vector<double>(100, 1.5 * root));
  }
}

TEST_F(CollectiveSuite, BarrierPassesOnEveryRank) {
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(group().Barrier().ok());
}

TEST_F(CollectiveSuite, SplitFormsGroupsThatSumSeparately) {
  auto part = group().Split(rank() % 2, -rank());  // odd and even ranks, in reverse
  ASSERT_TRUE(part.ok()) << part.status().ToString();
  std::int64_t members = 0, sum = 0, later = 0;
  for (int r = rank() % 2; r < size(); r += 2) {
    ++members;
    sum += r;
    later += r > rank() ? 1 : 0;
  }
  EXPECT_EQ((*part)->size(), members);
  EXPECT_EQ((*part)->rank(), later);
  const Buffer buffer = Put(std::vector<std::int64_t>(3, rank()));
  ASSERT_TRUE((*part)->AllReduceSum(buffer)->Wait(kTimeout).ok());
  EXPECT_EQ(Get<std::int64_t>(buffer), std::vector<std::int64_t>(3, sum));
  EXPECT_TRUE((*part)->End().ok());
}

TEST_F(CollectiveSuite, BroadcastBytesTransfersStringsOfAnySize) {
  for (const std::size_t count : {0u, 1u, 300000u}) {
    const std::string own =
        rank() == size() - 1 ? std::string(count, 'x') : std::string("something else");
    const auto bytes = BroadcastBytes(*TheBackend().control, own, size() - 1, kTimeout);
    ASSERT_TRUE(bytes.ok()) << bytes.status().ToString();
    EXPECT_TRUE(*bytes == std::string(count, 'x'));
  }
}

TEST_F(CollectiveSuite, RanksOfOneMachineAreNumberedInOrder) {
  const Result<LocalPlace> place = FindLocalPlace(*TheBackend().control, kTimeout);
  ASSERT_TRUE(place.ok()) << place.status().ToString();
  EXPECT_EQ(place->rank, rank());
  EXPECT_EQ(place->size, size());
}

TEST_F(CollectiveSuite, RanksOnOneGpuAreRefused) {
  Collective& control = *TheBackend().control;
  const std::string own(32, static_cast<char>('a' + rank()));
  EXPECT_TRUE(CheckGpusDiffer(own, control, kTimeout).ok());
  const Status shared = CheckGpusDiffer("5e", control, kTimeout);
  if (size() == 1) {
    EXPECT_TRUE(shared.ok());
    return;
  }
  EXPECT_EQ(shared.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(shared.message().find("ranks 0, 1"), 0U) << shared.message();
}

TEST_F(CollectiveSuite, InvalidCountsAndRootsAreRefusedAndTheGroupStaysUsable) {
  const Buffer in = Put(std::vector<float>(3));
  const Buffer out = Put(std::vector<float>(static_cast<std::size_t>(3 * size() + 1)));
  EXPECT_EQ(group().AllGather(in, out)->Wait(kTimeout).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(group().ReduceScatterSum(out, in)->Wait(kTimeout).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(group().AllToAll(in, out)->Wait(kTimeout).code(), StatusCode::kInvalidArgument);
  const std::vector<std::int64_t> counts(static_cast<std::size_t>(size()), 2);
  EXPECT_EQ(group().AllToAll(in, counts, out, counts)->Wait(kTimeout).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(group().Broadcast(in, size())->Wait(kTimeout).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(group().Barrier().ok());
}

}  // namespace
}  // namespace buttress
