// Measures how long it takes to publish a version of a given size in <folder>/published, to verify
// it in place, and to fetch it over gRPC into <folder>/fetched. Prints the seconds as JSON, which
// bench/weights/run.py reads.
#include <CLI/CLI.hpp>
#include <cstdio>

#include "lib/base/os/clock.h"
#include "lib/base/os/file.h"
#include "lib/base/text/random.h"
#include "lib/weights/fetcher.h"
#include "lib/weights/publisher.h"
#include "lib/weights/weight_server.h"

namespace buttress {
namespace {

constexpr std::int64_t kTensorValues = std::int64_t{16} << 20;

Result<WeightManifest> Publish(WeightPublisher& publisher, std::int64_t tensors,
                               std::string_view bytes) {
  std::vector<SafetensorsWriter::Declared> table;
  for (std::int64_t i = 0; i < tensors; ++i)
    table.push_back({"tensor." + std::to_string(i), "F32", {kTensorValues}});
  const std::vector<PlannedFile> files = DivideWeights(table);
  BUTTRESS_RETURN_IF_ERROR(publisher.Begin({1, 1, ""}, files));
  BUTTRESS_ASSIGN_OR_RETURN(
      const std::vector<WeightFile> written,
      WriteWeightFiles(publisher.folder(), files, [&](const std::string&) { return bytes; }));
  return publisher.Commit(written);
}

Status Run(const std::string& folder, std::int64_t gigabytes) {
  const std::int64_t tensors =
      gigabytes * 1000000000 / (kTensorValues * static_cast<std::int64_t>(sizeof(float)));
  std::string bytes(static_cast<std::size_t>(kTensorValues) * sizeof(float), '\0');
  RandomStream random({1, 0});
  for (char& byte : bytes) byte = static_cast<char>(random.Below(256));

  WeightStoreOptions store;
  store.folder = JoinPath(folder, "published");
  BUTTRESS_RETURN_IF_ERROR(MakeFolders(store.folder));
  BUTTRESS_ASSIGN_OR_RETURN(const auto server, WeightServer::Start(store.folder, "127.0.0.1:0"));
  store.sources = {server->address()};
  BUTTRESS_ASSIGN_OR_RETURN(const auto publisher, WeightPublisher::Create(store));
  double begin = MonotonicSeconds();
  BUTTRESS_ASSIGN_OR_RETURN(const WeightManifest manifest, Publish(*publisher, tensors, bytes));
  const double publish = MonotonicSeconds() - begin;

  begin = MonotonicSeconds();
  BUTTRESS_RETURN_IF_ERROR(MakeSharedFetcher()->Fetch(manifest).status());
  const double file = MonotonicSeconds() - begin;

  store.folder = JoinPath(folder, "fetched");
  const auto fetcher = MakeGrpcFetcher(store, {});
  begin = MonotonicSeconds();
  BUTTRESS_RETURN_IF_ERROR(fetcher->Fetch(manifest).status());
  const double grpc = MonotonicSeconds() - begin;
  std::printf(
      "{\"folder\": \"%s\", \"bytes\": %llu, \"publish\": %.6f, \"file\": %.6f, \"grpc\": %.6f}\n",
      manifest.folder.c_str(), static_cast<unsigned long long>(manifest.total_bytes()), publish,
      file, grpc);
  return OkStatus();
}

}  // namespace
}  // namespace buttress

int main(int argc, char** argv) {
  std::string folder;
  std::int64_t gigabytes = 1;
  CLI::App app("Measures publishing and fetching of weights");
  app.add_option("folder", folder, "where to write; needs twice the size of the weights")
      ->required();
  app.add_option("--gigabytes", gigabytes, "size of the weights")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  const buttress::Status status = buttress::Run(folder, gigabytes);
  if (!status.ok()) std::fprintf(stderr, "bench_weights: %s\n", status.message().c_str());
  return buttress::ExitCode(status);
}
