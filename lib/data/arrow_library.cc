#include "lib/data/arrow_library.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <filesystem>

#include "lib/base/os/file.h"
#include "lib/data/arrow/arrow_api.h"

namespace buttress {
namespace {

std::string BesideProgram(const std::string& name) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  return JoinPath(error ? std::string(".") : program.parent_path().string(), name);
}

Result<ArrowReadRows> OpenLibrary() {
  const std::string library_path = BesideProgram("libbuttress_arrow.so");
  void* library = ::dlopen(library_path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return FailedPrecondition(fmt::format("no Arrow: {}", ::dlerror()));
  const auto read = reinterpret_cast<ArrowReadRows>(::dlsym(library, kArrowReadRowsSymbol));
  if (read != nullptr) return read;
  return FailedPrecondition(library_path + " belongs to another build");
}

// Opened once, and stays open.
const Result<ArrowReadRows>& Library() {
  static const Result<ArrowReadRows> library = OpenLibrary();
  return library;
}

}  // namespace

Status LoadArrow(const std::string& path) {
  if (Library().ok()) return OkStatus();
  return FailedPrecondition(
      fmt::format("cannot read {}: {}; run deploy/setup.sh and build again, or convert the file: "
                  "python3 -c \"import pandas; pandas.read_parquet('{}').to_json('rows.jsonl', "
                  "orient='records', lines=True)\"",
                  path, Library().status().message(), path));
}

Status ReadColumns(const std::string& path, const RowSink& sink) {
  BUTTRESS_RETURN_IF_ERROR(LoadArrow(path));
  return (*Library())(path, sink);
}

}  // namespace buttress
