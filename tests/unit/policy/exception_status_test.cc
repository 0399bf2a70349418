#include "lib/policy/exception_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <new>
#include <string>

#include "lib/base/report/status.h"

namespace buttress {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Status StatusOfCall(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& e) {
    return StatusOf(e, "lower it");
  }
  return OkStatus();
}

TEST(ExceptionStatusTest, AnAllocationThatTheHostRefusesNamesItsSizeAndThePeak) {
  constexpr std::int64_t kPebibyte = std::int64_t{1} << 50;
  const Status status = StatusOfCall([] { at::empty({kPebibyte}, at::kByte); });
  EXPECT_TRUE(IsOutOfMemory(status));
  EXPECT_THAT(status.message(), AllOf(HasSubstr(std::to_string(kPebibyte) + " bytes"),
                                      HasSubstr("the peak of this process on the host is "),
                                      HasSubstr("; lower it")));
}

TEST(ExceptionStatusTest, TheExceptionsOfADeviceAndOfTheStandardLibraryCountToo) {
  const auto of_device = [] {
    TORCH_CHECK_WITH(OutOfMemoryError, false, "Tried to allocate 2 GiB");
  };
  EXPECT_TRUE(IsOutOfMemory(StatusOfCall(of_device)));
  EXPECT_TRUE(IsOutOfMemory(StatusOfCall([] { throw std::bad_alloc(); })));
  EXPECT_TRUE(IsOutOfMemory(StatusOfCall([] { TORCH_CHECK(false, "CUDA error: out of memory"); })));
}

TEST(ExceptionStatusTest, OtherExceptionsAreInternalAndGetNoAdvice) {
  const Status status = StatusOfCall([] { at::empty({2, 3}).matmul(at::empty({2, 3})); });
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_THAT(status.message(), Not(HasSubstr("lower it")));
}

}  // namespace
}  // namespace buttress
