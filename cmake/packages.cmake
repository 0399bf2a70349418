# The libraries of Debian that the project uses; deploy/setup.sh installs them.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(Protobuf REQUIRED)
find_package(OpenSSL REQUIRED)
find_package(ZLIB REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
pkg_check_modules(GRPC REQUIRED IMPORTED_TARGET grpc++)
pkg_check_modules(MICROHTTPD REQUIRED IMPORTED_TARGET libmicrohttpd)
pkg_check_modules(ABSL_MUTEX REQUIRED IMPORTED_TARGET absl_synchronization)
pkg_check_modules(ABSL_STRINGS REQUIRED IMPORTED_TARGET absl_strings)
pkg_check_modules(SQLITE REQUIRED IMPORTED_TARGET sqlite3)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl)
pkg_check_modules(GMP REQUIRED IMPORTED_TARGET gmp)
pkg_check_modules(RE2 REQUIRED IMPORTED_TARGET re2)
pkg_check_modules(SECCOMP REQUIRED IMPORTED_TARGET libseccomp)
find_library(BUTTRESS_FLINT flint REQUIRED)
find_library(BUTTRESS_ARB NAMES flint-arb arb REQUIRED)
# On Debian 12 the flags of these packages (NOMINMAX, UTF8PROC_EXPORTS, -pthread) have no effect but
# to make the precompiled headers invalid.
set_target_properties(
  PkgConfig::ABSL_MUTEX PkgConfig::ABSL_STRINGS PkgConfig::GRPC PkgConfig::RE2 PkgConfig::UTF8PROC
  PROPERTIES INTERFACE_COMPILE_OPTIONS "" INTERFACE_COMPILE_DEFINITIONS "")
# The package names an include folder that only GnuTLS needs; it would change every command line.
set_target_properties(PkgConfig::MICROHTTPD PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "")
find_program(BUTTRESS_GRPC_PLUGIN grpc_cpp_plugin REQUIRED)
if(BUTTRESS_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
# Of the learner, and of tests without it.
if(BUTTRESS_BUILD_TESTS OR NOT BUTTRESS_WITHOUT_TORCH)
  find_package(MPI REQUIRED COMPONENTS C)
endif()
