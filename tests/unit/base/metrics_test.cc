#include "lib/base/report/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>

#include "tests/support/loopback_connection.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

TEST(MetricsTest, SeriesWithTheSameNameAndLabelsAreOne) {
  Metrics metrics("coordinator");
  metrics.Counter("buttress_test_total", "Tests.", {{"kind", "a"}}).Increment();
  metrics.Counter("buttress_test_total", "Tests.", {{"kind", "a"}}).Increment(2);
  metrics.Counter("buttress_test_total", "Tests.", {{"kind", "b"}}).Increment();
  const std::string text = metrics.Expose();
  EXPECT_THAT(text, HasSubstr("buttress_test_total{kind=\"a\"} 3"));
  EXPECT_THAT(text, HasSubstr("buttress_test_total{kind=\"b\"} 1"));
  EXPECT_THAT(text, HasSubstr("process_resident_memory_bytes "));
  EXPECT_THAT(text, HasSubstr("buttress_build_info{component=\"coordinator\""));
}

TEST(MetricsTest, AFreePortIsPickedAndATakenOneIsAStatus) {
  Metrics first("coordinator");
  ASSERT_TRUE(first.Serve("127.0.0.1:0").ok());
  EXPECT_GT(first.port(), 0);
  Metrics second("worker");
  const Status status = second.Serve("127.0.0.1:" + std::to_string(first.port()));
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
}

TEST(MetricsTest, AnAddressThatHoldsManyConnectionsKeepsNobodyElseOut) {
  Metrics metrics("coordinator");
  ASSERT_TRUE(metrics.Serve("127.0.0.1:0").ok());
  std::deque<LoopbackConnection> slow;
  for (int i = 0; i < 200; ++i) slow.emplace_back(1, metrics.port()).Send("G");
  LoopbackConnection other(2, metrics.port());
  other.Send("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(other.Receive(), HasSubstr("200 OK"));
}

TEST(MetricsTest, ProbesAreAnsweredWhileStrangersHoldEveryConnectionOfMetrics) {
  Metrics metrics("coordinator");
  ASSERT_TRUE(metrics.Serve("127.0.0.1:0").ok());
  const Result<int> probes = metrics.ServeProbes("127.0.0.1:0");
  ASSERT_TRUE(probes.ok());
  std::deque<LoopbackConnection> strangers;
  for (int address = 1; address <= 8; ++address)
    for (int i = 0; i < 32; ++i) strangers.emplace_back(address, metrics.port()).Send("G");
  LoopbackConnection kubelet(9, *probes);
  kubelet.Send("GET /livez HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(kubelet.Receive(), HasSubstr("200 OK"));
  LoopbackConnection other(10, *probes);
  other.Send("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_THAT(other.Receive(), HasSubstr("404"));
}

}  // namespace
}  // namespace buttress
