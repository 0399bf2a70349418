// main of every test program. Ends with 77 when nothing failed and nothing ran, which ctest reports
// as skipped. A filter that names no test fails.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>

int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  testing::InitGoogleMock(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  if (all.test_to_run_count() == 0) {
    std::fprintf(stderr, "no test has the name of --gtest_filter=%s\n",
                 GTEST_FLAG_GET(filter).c_str());
    return 1;
  }
  const bool skipped = all.skipped_test_count() > 0 && all.successful_test_count() == 0;
  return failed == 0 && skipped ? kSkipped : failed;
}
