#include "lib/base/web/api_port.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/thread/sync.h"
#include "lib/http/http_client.h"
#include "tests/support/loopback_connection.h"
#include "tests/support/patience.h"

namespace buttress {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Keeps the calls of a port for the test to answer.
class CallBox {
 public:
  void Put(std::shared_ptr<ApiCall> call) {
    MutexLock lock(mutex_);
    calls_.push_back(std::move(call));
    changed_.NotifyAll();
  }

  // Null if none comes.
  std::shared_ptr<ApiCall> Take(std::chrono::milliseconds patience = kPatience) {
    MutexLock lock(mutex_);
    if (!changed_.WaitFor(mutex_, patience, [this]() REQUIRES(mutex_) { return !calls_.empty(); }))
      return nullptr;
    auto call = std::move(calls_.front());
    calls_.pop_front();
    return call;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::shared_ptr<ApiCall>> calls_ GUARDED_BY(mutex_);
};

struct Port {
  explicit Port(ApiPortOptions options = {}) {
    options.address = "127.0.0.1:0";
    options.what = "a test";
    auto started = ApiPort::Start(
        options, [this](std::shared_ptr<ApiCall> call) { box.Put(std::move(call)); });
    EXPECT_TRUE(started.ok()) << started.status().ToString();
    api = *std::move(started);
  }

  std::string Url(const std::string& path) const {
    return "http://127.0.0.1:" + std::to_string(api->port()) + path;
  }

  CallBox box;
  std::unique_ptr<ApiPort> api;
};

constexpr char kGet[] = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";

HttpRequest Post(const std::string& url, std::string body) {
  HttpRequest request;
  request.url = url;
  request.json = std::move(body);
  return request;
}

TEST(ApiPortTest, ManyCallsAreAnsweredByOtherThreadsInAnyOrder) {
  Port port;
  std::vector<HttpRequest> requests;
  for (int i = 0; i < 200; ++i)
    requests.push_back(Post(port.Url("/n?at=a%20b&i=" + std::to_string(i)), std::to_string(i)));
  std::thread answering([&port] {
    std::vector<std::shared_ptr<ApiCall>> calls;
    for (int i = 0; i < 200; ++i) calls.push_back(port.box.Take());
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&calls, t] {
        for (std::size_t i = t; i < calls.size(); i += 4) {
          ApiCall& call = *calls[calls.size() - 1 - i];
          EXPECT_EQ(call.method(), "POST");
          EXPECT_EQ(call.path(), "/n");
          EXPECT_EQ(call.Header("content-TYPE"), "application/json");
          EXPECT_EQ(call.Argument("at"), "a b");
          EXPECT_EQ(call.Argument("i"), call.body());
          call.Reply(201, "text/plain", "answer " + std::string(call.body()));
          call.Reply(500, "text/plain", "ignored");
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
  HttpClient http;
  const auto replies = http.Fetch(requests);
  answering.join();
  for (std::size_t i = 0; i < replies.size(); ++i) {
    ASSERT_TRUE(replies[i].ok()) << replies[i].status().ToString();
    EXPECT_EQ(replies[i]->status, 201);
    EXPECT_EQ(replies[i]->body, "answer " + std::to_string(i));
  }
}

TEST(ApiPortTest, PiecesArriveBeforeTheAnswerEndsAndTheConnectionServesTheNextCall) {
  Port port;
  LoopbackConnection client(1, port.api->port());
  for (int round = 0; round < 3; ++round) {
    client.Send(kGet);
    const auto call = port.box.Take();
    ASSERT_NE(call, nullptr);
    call->SetHeader("X-Round", std::to_string(round));
    call->Begin(200, "text/event-stream");
    call->Write("data: one\n\n");
    std::string read;
    while (read.find("data: one") == std::string::npos) {
      const std::string piece = client.Receive();
      ASSERT_FALSE(piece.empty()) << read;
      read += piece;
    }
    EXPECT_THAT(read, StartsWith("HTTP/1.1 200 OK"));
    EXPECT_THAT(read, HasSubstr("X-Round: " + std::to_string(round)));
    call->Write("data: two\n\n");
    call->End();
    call->Write("ignored");
    while (!read.ends_with("0\r\n\r\n")) {
      const std::string piece = client.Receive();
      ASSERT_FALSE(piece.empty()) << read;
      read += piece;
    }
    EXPECT_THAT(read, HasSubstr("data: two"));
    EXPECT_THAT(read, Not(HasSubstr("ignored")));
  }
}

TEST(ApiPortTest, AClientThatLeavesIsTold) {
  Port port;
  for (const bool begun : {false, true}) {
    StopSignal gone, late;
    auto client = std::make_unique<LoopbackConnection>(1, port.api->port());
    client->Send(kGet);
    const auto call = port.box.Take();
    ASSERT_NE(call, nullptr);
    if (begun) call->Begin(200, "text/plain");
    call->OnGone([&gone] { gone.Stop(); });
    EXPECT_FALSE(gone.WaitFor(std::chrono::milliseconds(20)));
    client.reset();
    EXPECT_TRUE(gone.WaitFor(kPatience));
    call->OnGone([&late] { late.Stop(); });
    EXPECT_TRUE(late.stopped());
    call->Write("to nobody");
    call->End();
    call->Reply(200, "text/plain", "to nobody");
  }
}

TEST(ApiPortTest, AClientThatHasItsAnswerIsNotGone) {
  Port port;
  StopSignal gone;
  {
    LoopbackConnection client(1, port.api->port());
    client.Send(kGet);
    const auto call = port.box.Take();
    ASSERT_NE(call, nullptr);
    call->OnGone([&gone] { gone.Stop(); });
    call->Reply(200, "text/plain", "all");
    EXPECT_THAT(client.Receive(), EndsWith("all"));
  }
  port.api.reset();
  EXPECT_FALSE(gone.stopped());
}

TEST(ApiPortTest, AClientThatReadsNothingIsClosedAtTheBoundAndDelaysNobody) {
  Port port({.max_unread_bytes = 100000});
  StopSignal gone;
  LoopbackConnection slow(1, port.api->port());
  slow.Send(kGet);
  const auto call = port.box.Take();
  ASSERT_NE(call, nullptr);
  call->OnGone([&gone] { gone.Stop(); });
  call->Begin(200, "text/plain");
  const std::string piece(90000, 'x');
  for (int i = 0; i < 1000 && !gone.WaitFor(std::chrono::milliseconds(1)); ++i) call->Write(piece);
  EXPECT_TRUE(gone.WaitFor(kPatience));

  LoopbackConnection other(2, port.api->port());
  other.Send(kGet);
  const auto next = port.box.Take();
  ASSERT_NE(next, nullptr);
  next->Reply(200, "text/plain", "next");
  EXPECT_THAT(other.Receive(), EndsWith("next"));
}

TEST(ApiPortTest, BodiesAreBounded) {
  Port port({.max_body_bytes = 100000});
  HttpClient http;
  const Result<HttpReply> refused =
      std::move(http.Fetch({Post(port.Url("/"), std::string(100001, 'x'))})[0]);
  ASSERT_TRUE(refused.ok()) << refused.status().ToString();
  EXPECT_EQ(refused->status, 413);
  EXPECT_THAT(refused->body, HasSubstr("more than 100000 bytes"));

  LoopbackConnection chunked(1, port.api->port());
  chunked.Send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 3; ++i) chunked.Send("c350\r\n" + std::string(50000, 'x') + "\r\n");
  chunked.Send("0\r\n\r\n");
  EXPECT_THAT(chunked.Receive(), StartsWith("HTTP/1.1 413"));

  std::thread answering([&port] {
    if (const auto call = port.box.Take())
      call->Reply(200, "text/plain", std::to_string(call->body().size()));
  });
  const Result<HttpReply> taken =
      std::move(http.Fetch({Post(port.Url("/"), std::string(100000, 'x'))})[0]);
  answering.join();
  ASSERT_TRUE(taken.ok()) << taken.status().ToString();
  EXPECT_EQ(taken->body, "100000");
}

TEST(ApiPortTest, ARequestThatDoesNotEndInTimeIsA408) {
  Port port({.max_receive_ms = 300});
  LoopbackConnection silent(1, port.api->port()), slow(1, port.api->port());
  const std::string head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n";
  silent.Send(head);
  slow.Send(head);
  StopSignal ended;
  std::thread sending([&] {
    while (!ended.WaitFor(std::chrono::milliseconds(20))) slow.Send("x");
  });
  EXPECT_THAT(silent.Receive(), StartsWith("HTTP/1.1 408"));
  EXPECT_THAT(slow.Receive(), StartsWith("HTTP/1.1 408"));
  ended.Stop();
  sending.join();
  EXPECT_EQ(silent.Receive(), "");

  // An answer may take longer.
  LoopbackConnection waits(1, port.api->port());
  waits.Send(kGet);
  const auto call = port.box.Take();
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(port.box.Take(std::chrono::milliseconds(800)), nullptr);
  call->Reply(200, "text/plain", "at last");
  EXPECT_THAT(waits.Receive(), EndsWith("at last"));
}

TEST(ApiPortTest, CallsBeyondAShareAreRefusedBeforeTheirBodiesAreKept) {
  Port port({.share_of = [](std::string_view path) { return std::string(path.substr(0, 2)); },
             .max_of_share = 2});
  const std::string head = " HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n";
  LoopbackConnection slow(1, port.api->port()), waits(1, port.api->port());
  LoopbackConnection third(1, port.api->port()), other(1, port.api->port());
  slow.Send("POST /a/1" + head);
  waits.Send("POST /a/2" + head + "body");
  auto call = port.box.Take();
  ASSERT_NE(call, nullptr);
  third.Send("POST /a/3" + head + "body");
  const std::string refused = third.Receive();
  EXPECT_THAT(refused, StartsWith("HTTP/1.1 429"));
  EXPECT_THAT(refused, HasSubstr("Retry-After: 1"));
  EXPECT_THAT(refused, HasSubstr(R"("code":"too_many_calls")"));
  other.Send("POST /b/1" + head + "body");
  ASSERT_NE(port.box.Take(), nullptr) << "others have a share of their own";
  call->Reply(200, "text/plain", "yes");
  EXPECT_THAT(waits.Receive(), EndsWith("yes"));
  third.Send("POST /a/4" + head + "body");
  call = port.box.Take();
  ASSERT_NE(call, nullptr);
  EXPECT_EQ(call->body(), "body");
}

TEST(ApiPortTest, ACallThatNobodyAnswersIsClosed) {
  Port port;
  LoopbackConnection client(1, port.api->port());
  client.Send(kGet);
  ASSERT_NE(port.box.Take(), nullptr);
  EXPECT_EQ(client.Receive(), "");
  LoopbackConnection half(1, port.api->port());
  half.Send(kGet);
  {
    const auto call = port.box.Take();
    ASSERT_NE(call, nullptr);
    call->Begin(200, "text/plain");
  }
  std::string read, piece;
  while (!(piece = half.Receive()).empty()) read += piece;
  EXPECT_THAT(read, Not(EndsWith("0\r\n\r\n")));
}

TEST(ApiPortTest, AConnectionBeyondTheBoundWaitsForAnotherToEnd) {
  Port port({.connections = 4});
  std::deque<LoopbackConnection> clients;
  std::vector<std::shared_ptr<ApiCall>> calls;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back(1, port.api->port()).Send(kGet);
    calls.push_back(port.box.Take());
  }
  LoopbackConnection fifth(1, port.api->port());
  fifth.Send(kGet);
  EXPECT_EQ(port.box.Take(std::chrono::milliseconds(100)), nullptr);
  clients.pop_front();
  const auto call = port.box.Take();
  ASSERT_NE(call, nullptr);
  call->Reply(200, "text/plain", "yes");
  EXPECT_THAT(fifth.Receive(), EndsWith("yes"));
}

TEST(ApiPortTest, ACallIsOpenUntilItsAnswerIsSent) {
  constexpr std::size_t kBytes = std::size_t{32} << 20;  // more than the kernel keeps
  Port port;
  LoopbackConnection client(1, port.api->port());
  EXPECT_EQ(port.api->open(), 0);
  client.Send(kGet);
  const auto call = port.box.Take();
  ASSERT_NE(call, nullptr);
  call->Reply(200, "text/plain", std::string(kBytes, 'x'));
  EXPECT_EQ(port.api->open(), 1);
  for (std::size_t read = 0; read < kBytes;) {
    const std::string piece = client.Receive();
    ASSERT_FALSE(piece.empty()) << read;
    read += piece.size();
  }
  client.Send(kGet);
  const auto next = port.box.Take();
  ASSERT_NE(next, nullptr);
  EXPECT_EQ(port.api->open(), 1);  // the second, since the connection serves one after the other
}

TEST(ApiPortTest, ThePortEndsWithOpenCallsWhichAreAnsweredToNobody) {
  auto port = std::make_unique<Port>();
  LoopbackConnection waits(1, port->api->port()), reads(1, port->api->port());
  StopSignal first, second;
  waits.Send(kGet);
  const auto waiting = port->box.Take();
  reads.Send(kGet);
  const auto begun = port->box.Take();
  ASSERT_NE(waiting, nullptr);
  ASSERT_NE(begun, nullptr);
  waiting->OnGone([&first] { first.Stop(); });
  begun->OnGone([&second] { second.Stop(); });
  begun->Begin(200, "text/plain");
  port.reset();
  EXPECT_TRUE(first.stopped());
  EXPECT_TRUE(second.stopped());
  waiting->Reply(200, "text/plain", "late");
  begun->Write("late");
  begun->End();
}

TEST(ApiPortTest, ATakenPortIsAStatus) {
  Port port;
  const auto second =
      ApiPort::Start({.address = "127.0.0.1:" + std::to_string(port.api->port()), .what = "a test"},
                     [](const std::shared_ptr<ApiCall>&) {});
  EXPECT_EQ(second.status().code(), StatusCode::kUnavailable);
  EXPECT_THAT(second.status().message(), HasSubstr("cannot serve a test on 127.0.0.1"));
}

}  // namespace
}  // namespace buttress
