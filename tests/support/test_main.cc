// main of every test program. Ends with 77 when nothing failed and nothing ran, which ctest reports
// as skipped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  testing::InitGoogleMock(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  const bool skipped = all.skipped_test_count() > 0 && all.successful_test_count() == 0;
  return failed == 0 && skipped ? kSkipped : failed;
}
