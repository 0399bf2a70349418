// What deploy/make-certs.sh makes, in a folder of the test's own. Needs BUTTRESS_SOURCE_DIR.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "lib/base/os/file.h"
#include "lib/base/report/check.h"
#include "lib/config/load_credentials.h"
#include "tests/support/temp_dir.h"

namespace buttress {

class MadeCertificates {
 public:
  // `hosts` as on the script's command line; `environment` before it ("DAYS=1").
  explicit MadeCertificates(const std::string& hosts = "here",
                            const std::string& environment = "") {
    const std::string command = environment + " " BUTTRESS_SOURCE_DIR "/deploy/make-certs.sh " +
                                dir_.path() + " " + hosts + " >/dev/null";
    BUTTRESS_CHECK(std::system(command.c_str()) == 0, "deploy/make-certs.sh");
  }

  // A copy of the files of another folder, as on another machine.
  struct CopyOf {
    std::string folder;
  };

  explicit MadeCertificates(const CopyOf& other) {
    std::filesystem::copy(other.folder, dir_.path(),
                          std::filesystem::copy_options::overwrite_existing |
                              std::filesystem::copy_options::recursive);
  }

  SecurityConfig Of(const std::string& host = "here") const {
    return {Path(host + ".pem"), Path(host + ".key"), Path("ca.pem"), folder(), false, ""};
  }

  Credentials Load(Program program, const std::string& host = "here") const {
    return *LoadCredentials(Of(host), program);
  }

  std::string Path(const std::string& name) const { return JoinPath(dir_.path(), name); }

  const std::string& folder() const { return dir_.path(); }

 private:
  TempDir dir_;
};

}  // namespace buttress
