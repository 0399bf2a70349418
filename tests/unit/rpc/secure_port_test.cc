// Ports with certificates and a token: which gRPC and HTTPS clients they accept.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <thread>

#include "buttress/v1/coordinator.grpc.pb.h"
#include "buttress/v1/weights.grpc.pb.h"
#include "lib/base/report/metrics.h"
#include "lib/rpc/channel.h"
#include "lib/rpc/rpc_server.h"
#include "tests/support/raw_call.h"
#include "tests/support/runs/made_certificates.h"
#include "tests/support/secret_file.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

constexpr char kHealth[] = "/grpc.health.v1.Health/Check";

// Answers UNIMPLEMENTED to every call that passes authentication.
class SecurePortTest : public ::testing::Test {
 protected:
  SecurePortTest() {
    server_ = *RpcServer::Start("0.0.0.0:0", made_.Load(Program::kCoordinator),
                                {&coordinator_, &weights_});
  }

  static grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel,
                           const std::string& method = "/buttress.v1.Coordinator/GetRunStatus") {
    grpc::ByteBuffer answer;
    return CallRaw(channel, method, BytesOf(""), answer);
  }

  // Every method of the project's services, as in "/buttress.v1.Weights/Fetch".
  static std::vector<std::string> EveryMethod() {
    std::vector<std::string> paths;
    const auto& pool = *google::protobuf::DescriptorPool::generated_pool();
    for (const char* name : {"buttress.v1.Coordinator", "buttress.v1.Weights"}) {
      const auto* service = pool.FindServiceByName(name);
      for (int i = 0; i < service->method_count(); ++i)
        paths.push_back(std::string("/") + name + "/" + service->method(i)->name());
    }
    return paths;
  }

  std::string Address(const std::string& host = "127.0.0.1") const {
    return host + ":" + std::to_string(server_->port());
  }

  const MadeCertificates made_;
  v1::Coordinator::Service coordinator_;
  v1::Weights::Service weights_;
  std::unique_ptr<RpcServer> server_;
};

TEST_F(SecurePortTest, NoMethodAnswersWithoutATokenOfTheRun) {
  Credentials guess = made_.Load(Program::kWorker);
  guess.token = MadeCertificates().Load(Program::kWorker).token;
  const auto channel = MakeChannel(Address(), guess);
  EXPECT_GE(EveryMethod().size(), 13U);
  for (const std::string& path : EveryMethod()) {
    const grpc::Status refused = Call(channel, path);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAUTHENTICATED) << path;
    EXPECT_THAT(refused.error_message(), HasSubstr("local.security.tokens"));
  }
  EXPECT_EQ(Call(channel, kHealth).error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

TEST_F(SecurePortTest, EveryMethodAnswersToItsRolesOnly) {
  const std::set<std::string> of_worker = {"RegisterWorker", "Exchange", "SubmitGroups", "Fetch"};
  const std::set<std::string> of_learner = {"RegisterLearner", "PlanBatch",       "FetchGroups",
                                            "Commit",          "AnnounceWeights", "Checkpointed"};
  const std::map<Program, std::set<std::string>> allowed = {
      {Program::kWorker, of_worker},
      {Program::kLearner, of_learner},
      {Program::kOperating, {"OrderWorker", "OrderMaxAge", "StopRun", "Follow", "GetRunStatus"}},
      {Program::kStatus, {"GetRunStatus"}}};
  std::set<std::string> reachable;
  for (const auto& [program, methods] : allowed) {
    const auto channel = MakeChannel(Address(), made_.Load(program));
    EXPECT_EQ(Call(channel, kHealth).error_code(), grpc::StatusCode::UNIMPLEMENTED);
    for (const std::string& path : EveryMethod()) {
      const std::string method = path.substr(path.rfind('/') + 1);
      const bool may = methods.contains(method);
      if (may) reachable.insert(path);
      EXPECT_EQ(Call(channel, path).error_code(),
                may ? grpc::StatusCode::UNIMPLEMENTED : grpc::StatusCode::PERMISSION_DENIED)
          << path << " by program " << static_cast<int>(program);
    }
  }
  EXPECT_EQ(reachable.size(), EveryMethod().size()) << "a method that nobody may call";
}

TEST_F(SecurePortTest, ARefusalNamesTheCallTheRolesAndTheSetting) {
  const auto channel = MakeChannel(Address(), made_.Load(Program::kWorker));
  EXPECT_THAT(
      Call(channel, "/buttress.v1.Coordinator/Commit").error_message(),
      testing::AllOf(HasSubstr("Coordinator/Commit needs the token of the learner"),
                     HasSubstr("has that of the worker"), HasSubstr("local.security.tokens")));
  EXPECT_THAT(Call(channel).error_message(), HasSubstr("operator or monitor"));
}

// The files of the two sides change at different moments, in either order.
TEST_F(SecurePortTest, ATokenIsReplacedWithoutARestart) {
  const MadeCertificates copy(MadeCertificates::CopyOf{made_.folder()});
  const auto channel = MakeChannel(Address(), copy.Load(Program::kStatus));
  const auto answered = [&] { return Call(channel).error_code(); };
  ASSERT_EQ(answered(), grpc::StatusCode::UNIMPLEMENTED);
  const auto rotate = [](const MadeCertificates& side, const std::string& token) {
    ASSERT_TRUE(WriteSecret(side.Path("monitor.token"), token).ok());
    std::this_thread::sleep_for(std::chrono::milliseconds(TokenFile::kCheckMs + 100));
  };
  const std::string second(64, '2'), third(64, '3');
  rotate(made_, second);
  EXPECT_EQ(answered(), grpc::StatusCode::UNIMPLEMENTED) << "the server has changed first";
  rotate(copy, second);
  EXPECT_EQ(answered(), grpc::StatusCode::UNIMPLEMENTED);
  rotate(copy, third);
  EXPECT_EQ(answered(), grpc::StatusCode::UNIMPLEMENTED) << "the client has changed first";
  rotate(made_, third);
  EXPECT_EQ(answered(), grpc::StatusCode::UNIMPLEMENTED);
  Credentials old = copy.Load(Program::kStatus);
  ASSERT_TRUE(WriteSecret(copy.Path("old.token"), std::string(64, '1')).ok());
  old.token = *TokenFile::Open(copy.Path("old.token"));
  EXPECT_EQ(Call(MakeChannel(Address(), old)).error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

// Both sides get certificates of another authority, and the server is started again in between, so
// that the client connects once more.
TEST_F(SecurePortTest, CertificatesAreReplacedWithoutARestart) {
  const MadeCertificates copy(MadeCertificates::CopyOf{made_.folder()});
  const MadeCertificates renewed;
  const auto replace = [&](const MadeCertificates& side) {
    for (const char* name : {"ca.pem", "here.key", "here.pem"}) {
      std::filesystem::copy_file(renewed.Path(name), side.Path("new"));
      std::filesystem::rename(side.Path("new"), side.Path(name));
    }
  };
  const auto wait = [] {
    std::this_thread::sleep_for(std::chrono::seconds(kCertificateRefreshSeconds + 2));
  };
  const Credentials of_client = copy.Load(Program::kStatus);
  const auto channel = MakeChannel(Address(), of_client);
  const auto answered = [&] { return Call(channel).error_code(); };
  const auto from_anew = [&] { return Call(MakeChannel(Address(), of_client)).error_code(); };
  ASSERT_EQ(answered(), grpc::StatusCode::UNIMPLEMENTED);
  replace(made_);
  wait();
  EXPECT_EQ(answered(), grpc::StatusCode::UNIMPLEMENTED) << "a connection stays";
  EXPECT_EQ(from_anew(), grpc::StatusCode::UNAVAILABLE) << "the authorities differ";
  replace(copy);
  wait();
  EXPECT_EQ(from_anew(), grpc::StatusCode::UNIMPLEMENTED);
  const std::string listen = "0.0.0.0:" + std::to_string(server_->port());
  server_.reset();
  server_ =
      *RpcServer::Start(listen, made_.Load(Program::kCoordinator), {&coordinator_, &weights_});
  grpc::StatusCode code = grpc::StatusCode::UNAVAILABLE;
  for (int i = 0; i < 100 && code == grpc::StatusCode::UNAVAILABLE; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    code = answered();
  }
  EXPECT_EQ(code, grpc::StatusCode::UNIMPLEMENTED) << "the channel reads the files again";
}

TEST_F(SecurePortTest, NoClientConnectsWithoutACertificateOfTheRun) {
  EXPECT_EQ(Call(MakeChannel(Address())).error_code(), grpc::StatusCode::UNAVAILABLE)
      << "plain text";
  const MadeCertificates other;
  Credentials foreign = other.Load(Program::kStatus);
  EXPECT_EQ(Call(MakeChannel(Address(), foreign)).error_code(), grpc::StatusCode::UNAVAILABLE)
      << "another authority on both sides";
  foreign.files.ca = made_.Path("ca.pem");
  EXPECT_EQ(Call(MakeChannel(Address(), foreign)).error_code(), grpc::StatusCode::UNAVAILABLE)
      << "a client of another authority";
  grpc::SslCredentialsOptions no_certificate;
  no_certificate.pem_root_certs = made_.Load(Program::kStatus).ca;
  EXPECT_EQ(Call(grpc::CreateChannel(Address(), grpc::SslCredentials(no_certificate))).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(SecurePortTest, ClientsRejectAServerWhoseCertificateLacksItsAddress) {
  EXPECT_EQ(Call(MakeChannel(Address("localhost"), made_.Load(Program::kStatus))).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(Call(MakeChannel(Address("127.0.0.2"), made_.Load(Program::kStatus))).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(SecurePortTest, OneNameMayStandForEveryAddress) {
  Credentials named = made_.Load(Program::kStatus);
  named.name = "here";
  EXPECT_EQ(Call(MakeChannel(Address("127.0.0.2"), named)).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  named.name = "there";
  EXPECT_EQ(Call(MakeChannel(Address(), named)).error_code(), grpc::StatusCode::UNAVAILABLE);
}

// Descriptors that run out are kept from connections, and the port answers again afterwards.
TEST(RpcServerTest, ConnectionsBeyondTheDescriptorsLeaveThePortOpen) {
  v1::Weights::Service weights;
  const auto server = *RpcServer::Start("127.0.0.1:0", {}, {&weights});
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few = {96, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  const std::string script =
      "bash -c 'ulimit -Sn 500; for i in $(seq 10 300); do eval \"exec $i<>/dev/tcp/127.0.0.1/" +
      std::to_string(server->port()) + "\"; done; echo open; read'";
  FILE* const pipe = ::popen(script.c_str(), "w");
  ASSERT_NE(pipe, nullptr);
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    FILE* const file = std::fopen("/dev/null", "r");
    ASSERT_NE(file, nullptr) << "connections took the descriptor of a file";
    std::fclose(file);
  }
  std::fputs("\n", pipe);
  ::pclose(pipe);
  grpc::ByteBuffer answer;
  const auto channel = MakeChannel(server->address());
  grpc::Status status = CallRaw(channel, "/buttress.v1.Weights/Fetch", BytesOf(""), answer);
  for (int i = 0; i < 100 && status.error_code() == grpc::StatusCode::UNAVAILABLE; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    status = CallRaw(channel, "/buttress.v1.Weights/Fetch", BytesOf(""), answer);
  }
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
  ::setrlimit(RLIMIT_NOFILE, &before);
}

// Returns the body followed by the HTTP code, or curl's error without a response.
std::string Curl(const std::string& arguments) {
  FILE* const pipe =
      ::popen(("curl -sS --max-time 10 -w '%{http_code}' " + arguments + " 2>&1").c_str(), "r");
  std::string text(1 << 16, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), pipe));
  ::pclose(pipe);
  return text;
}

TEST(MetricsPortTest, MetricsRequireHttpsAndTheTokenWithCredentials) {
  const MadeCertificates made;
  Metrics metrics("coordinator");
  ASSERT_TRUE(metrics.Serve("127.0.0.1:0", made.Load(Program::kCoordinator)).ok());
  const std::string host = "localhost:" + std::to_string(metrics.port());
  const std::string trust = "--cacert " + made.Path("ca.pem") + " ";
  const auto bearer_of = [&](const std::string& role) {
    return "-H \"Authorization: Bearer $(cat " + made.Path(role + ".token") + ")\" ";
  };
  const std::string bearer = bearer_of("monitor");
  EXPECT_THAT(Curl(trust + bearer + "https://" + host + "/metrics"),
              testing::AllOf(HasSubstr("buttress_build_info{component=\"coordinator\""),
                             testing::EndsWith("200")));
  EXPECT_THAT(Curl(trust + "https://" + host + "/metrics"), testing::EndsWith("401"));
  EXPECT_THAT(Curl(trust + bearer_of("worker") + "https://" + host + "/metrics"),
              testing::AllOf(HasSubstr("not that of the worker"), testing::EndsWith("403")));
  EXPECT_THAT(Curl(trust + "-H 'Authorization: Bearer 0' https://" + host + "/metrics"),
              testing::EndsWith("401"));
  EXPECT_THAT(Curl(trust + "https://" + host + "/livez"), "ok\n200");
  EXPECT_THAT(Curl(bearer + "https://" + host + "/metrics"), HasSubstr("certificate"));
  EXPECT_THAT(Curl(bearer + "http://" + host + "/metrics"), testing::Not(HasSubstr("buttress_")));
}

TEST(MetricsPortTest, ACertificateIsReplacedOnceItsKeyIsThere) {
  const MadeCertificates made, renewed;
  Metrics metrics("coordinator");
  ASSERT_TRUE(metrics.Serve("127.0.0.1:0", made.Load(Program::kCoordinator)).ok());
  const auto alive = [&](const MadeCertificates& trusted) {
    return Curl("--cacert " + trusted.Path("ca.pem") +
                " https://localhost:" + std::to_string(metrics.port()) + "/livez");
  };
  const auto replace = [&](const std::string& name) {
    std::filesystem::copy_file(renewed.Path(name), made.Path("new"));
    std::filesystem::rename(made.Path("new"), made.Path(name));
    std::this_thread::sleep_for(std::chrono::seconds(kCertificateRefreshSeconds + 2));
  };
  ASSERT_EQ(alive(made), "ok\n200");
  replace("here.pem");
  EXPECT_EQ(alive(made), "ok\n200") << "the key is of the certificate before";
  replace("here.key");
  EXPECT_EQ(alive(renewed), "ok\n200");
  EXPECT_THAT(alive(made), HasSubstr("certificate"));
}

TEST(MetricsPortTest, PlainMetricsAreNotDelayedByIdleConnections) {
  Metrics metrics("worker");
  ASSERT_TRUE(metrics.Serve("127.0.0.1:0").ok());
  const std::string port = std::to_string(metrics.port());
  // 16 silent connections stay open during the request.
  const std::string script =
      "bash -c 'for i in $(seq 10 25); do eval \"exec $i<>/dev/tcp/127.0.0.1/" + port +
      "\"; done; curl -sS --max-time 5 -w \"%{http_code}\" http://127.0.0.1:" + port + "/metrics'";
  FILE* const pipe = ::popen(script.c_str(), "r");
  std::string text(1 << 16, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), pipe));
  ::pclose(pipe);
  EXPECT_THAT(text, testing::AllOf(HasSubstr("process_open_fds"), testing::EndsWith("200")));
  EXPECT_THAT(Curl("http://127.0.0.1:" + port + "/other"), testing::EndsWith("404"));
  EXPECT_THAT(Curl("-X POST -d x http://127.0.0.1:" + port + "/metrics"), testing::EndsWith("405"));
}

}  // namespace
}  // namespace buttress
