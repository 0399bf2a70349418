// Ports with certificates and a token: which gRPC and HTTPS clients they accept.
#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "buttress/v1/coordinator.grpc.pb.h"
#include "buttress/v1/weights.grpc.pb.h"
#include "lib/base/metrics.h"
#include "lib/rpc/channel.h"
#include "tests/support/made_certificates.h"

namespace buttress {
namespace {

using ::testing::HasSubstr;

// Answers UNIMPLEMENTED to every call that passes authentication.
class SecurePortTest : public ::testing::Test {
 protected:
  SecurePortTest() {
    grpc::ServerBuilder builder;
    ApplyServerOptions(builder);
    builder.AddListeningPort("0.0.0.0:0", MakeServerCredentials(made_.Load()), &port_);
    builder.RegisterService(&coordinator_);
    builder.RegisterService(&weights_);
    server_ = builder.BuildAndStart();
  }

  ~SecurePortTest() override { server_->Shutdown(std::chrono::system_clock::now()); }

  static grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel,
                           const std::string& method = "/buttress.v1.Coordinator/GetRunStatus") {
    grpc::GenericStub stub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const grpc::ByteBuffer empty(nullptr, 0);
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareUnaryCall(&context, method, empty, &queue);
    call->StartCall();
    grpc::ByteBuffer answer;
    grpc::Status status;
    call->Finish(&answer, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status;
  }

  std::string Address(const std::string& host = "127.0.0.1") const {
    return host + ":" + std::to_string(port_);
  }

  const MadeCertificates made_;
  v1::Coordinator::Service coordinator_;
  v1::Weights::Service weights_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(SecurePortTest, NoMethodAnswersWithoutTheToken) {
  Credentials guess = made_.Load();
  guess.token = std::string(64, '0');
  const auto with = MakeChannel(Address(), made_.Load()), without = MakeChannel(Address(), guess);
  const auto& pool = *google::protobuf::DescriptorPool::generated_pool();
  int methods = 0;
  for (const char* name : {"buttress.v1.Coordinator", "buttress.v1.Weights"}) {
    const auto* service = pool.FindServiceByName(name);
    ASSERT_NE(service, nullptr);
    for (int i = 0; i < service->method_count(); ++i, ++methods) {
      const std::string path = std::string("/") + name + "/" + service->method(i)->name();
      const grpc::Status refused = Call(without, path);
      EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAUTHENTICATED) << path;
      EXPECT_THAT(refused.error_message(), HasSubstr("local.security.token_file"));
      EXPECT_EQ(Call(with, path).error_code(), grpc::StatusCode::UNIMPLEMENTED) << path;
    }
  }
  EXPECT_GE(methods, 11);
}

TEST_F(SecurePortTest, NoClientConnectsWithoutACertificateOfTheRun) {
  EXPECT_EQ(Call(MakeChannel(Address())).error_code(), grpc::StatusCode::UNAVAILABLE)
      << "plain text";
  const MadeCertificates other;
  Credentials foreign = other.Load();
  EXPECT_EQ(Call(MakeChannel(Address(), foreign)).error_code(), grpc::StatusCode::UNAVAILABLE)
      << "another authority on both sides";
  foreign.ca = made_.Load().ca;
  EXPECT_EQ(Call(MakeChannel(Address(), foreign)).error_code(), grpc::StatusCode::UNAVAILABLE)
      << "a client of another authority";
  grpc::SslCredentialsOptions no_certificate;
  no_certificate.pem_root_certs = made_.Load().ca;
  EXPECT_EQ(Call(grpc::CreateChannel(Address(), grpc::SslCredentials(no_certificate))).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(SecurePortTest, ClientsRejectAServerWhoseCertificateLacksItsAddress) {
  EXPECT_EQ(Call(MakeChannel(Address("localhost"), made_.Load())).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(Call(MakeChannel(Address("127.0.0.2"), made_.Load())).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(SecurePortTest, OneNameMayStandForEveryAddress) {
  Credentials named = made_.Load();
  named.name = "here";
  EXPECT_EQ(Call(MakeChannel(Address("127.0.0.2"), named)).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  named.name = "there";
  EXPECT_EQ(Call(MakeChannel(Address(), named)).error_code(), grpc::StatusCode::UNAVAILABLE);
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
  ASSERT_TRUE(metrics.Serve("127.0.0.1:0", made.Load()).ok());
  const std::string host = "localhost:" + std::to_string(metrics.port());
  const std::string trust = "--cacert " + made.Path("ca.pem") + " ";
  const std::string bearer = "-H \"Authorization: Bearer $(cat " + made.Path("token") + ")\" ";
  EXPECT_THAT(Curl(trust + bearer + "https://" + host + "/metrics"),
              testing::AllOf(HasSubstr("buttress_build_info{component=\"coordinator\""),
                             testing::EndsWith("200")));
  EXPECT_THAT(Curl(trust + "https://" + host + "/metrics"), testing::EndsWith("401"));
  EXPECT_THAT(Curl(trust + "-H 'Authorization: Bearer 0' https://" + host + "/metrics"),
              testing::EndsWith("401"));
  EXPECT_THAT(Curl(trust + "https://" + host + "/healthz"), "ok\n200");
  EXPECT_THAT(Curl(bearer + "https://" + host + "/metrics"), HasSubstr("certificate"));
  EXPECT_THAT(Curl(bearer + "http://" + host + "/metrics"), testing::Not(HasSubstr("buttress_")));
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
