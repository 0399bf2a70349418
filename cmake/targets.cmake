# buttress_library(NAME [TORCH|COLD] SOURCES ... [LINK ...])
#   The static library of one folder. What it links decides which precompiled header it uses.
# buttress_program(NAME [TORCH|COLD] [ON_DEMAND] SOURCES ... [LINK ...])
#   A program in bin/; an ON_DEMAND program is built only when it is named.
#   COLD code runs a few times in a run, so it is compiled for size: that takes g++ a third less
#   time than -O2.
# buttress_run_tests(NAME...)
#   Tests of several processes, which keep two cores busy. ctest -j 6 runs three of them at once, or
#   one next to two tests that mostly wait; the longest tests start first (COST).
# buttress_test(NAME [TORCH] LABEL unit|property|... TIMEOUT seconds SOURCES ... [LINK ...])
#   One GoogleTest program.
# buttress_process_tests(NAME LABEL integration|fault TIMEOUT seconds SOURCES ... [LINK ...]
#                        DEPENDS ...)
#   One GoogleTest program of tests that start the programs DEPENDS. Each source is a test of ctest
#   with the name of the file, and has a namespace of that name.

# Compiles HEADERS once as target `pch`, for _buttress_precompiled(target pch).
function(_buttress_precompiled_header pch libraries)
  file(CONFIGURE OUTPUT ${pch}.cc CONTENT "")  # keeps the file if it is there
  add_library(${pch} OBJECT ${CMAKE_BINARY_DIR}/${pch}.cc)
  target_link_libraries(${pch} PRIVATE buttress_options ${libraries})
  target_compile_options(${pch} PRIVATE -fpch-preprocess)
  target_precompile_headers(${pch} PRIVATE ${ARGN})
endfunction()

# A header belongs here if most files that share the precompiled header include it: in each of them
# g++ instantiates the templates of the header's inline functions again, needed or not. That costs
# half a second a file for <nlohmann/json.hpp>, and one for <torch/autograd.h>. Clang compiles
# without precompiled headers, so that the preset clang finds missing includes.
set(_buttress_std
    <algorithm> <chrono> <cmath> <filesystem> <functional> <map> <memory> <mutex> <optional> <set>
    <span> <string> <string_view> <utility> <variant> <vector>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  if(NOT BUTTRESS_WITHOUT_TORCH)
    _buttress_precompiled_header(
      buttress_torch_pch buttress_torch <torch/types.h> <torch/utils.h>)
  endif()
  _buttress_precompiled_header(buttress_std_pch "" ${_buttress_std})
  _buttress_precompiled_header(
    buttress_grpc_pch PkgConfig::GRPC ${_buttress_std} <grpcpp/grpcpp.h>)
  _buttress_precompiled_header(
    buttress_cold_pch nlohmann_json::nlohmann_json ${_buttress_std} <nlohmann/json.hpp>)
  target_compile_options(buttress_cold_pch PRIVATE $<$<CONFIG:Release>:-Os>)
  _buttress_precompiled_header(
    buttress_program_pch "CLI11::CLI11;nlohmann_json::nlohmann_json"
    <CLI/CLI.hpp> <nlohmann/json.hpp>)
  if(BUTTRESS_BUILD_TESTS)
    _buttress_precompiled_header(buttress_test_pch GTest::gmock <gmock/gmock.h> <gtest/gtest.h>)
    target_compile_options(buttress_test_pch PRIVATE -O0)
  endif()
endif()

# The header was compiled with -fPIC and would be invalid with the -fPIE of programs. g++ 12 reports
# overlap and overflow in operator+ of std::string where that comes from a precompiled header (gcc
# bug 105329).
function(_buttress_precompiled target pch)
  if(NOT TARGET ${pch})
    return()
  endif()
  target_compile_options(
    ${target} PRIVATE -fpch-preprocess -fPIC -Wno-array-bounds -Wno-restrict
                      -Wno-stringop-overread -Wno-stringop-overflow)
  target_precompile_headers(${target} REUSE_FROM ${pch})
endfunction()

# Compiles up to `batch` sources of a target as one, which reads their headers once. Names in their
# anonymous namespaces must differ. The presets dev and clang compile each source alone.
function(_buttress_unity target batch)
  if(BUTTRESS_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
    # A type in an anonymous namespace looks like one of a header there.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

function(_buttress_torch_target name)
  target_link_libraries(${name} PUBLIC buttress_torch)
  set_target_properties(${name} PROPERTIES JOB_POOL_COMPILE torch)
  _buttress_precompiled(${name} buttress_torch_pch)
endfunction()

function(buttress_library name)
  cmake_parse_arguments(ARG "TORCH;COLD" "" "SOURCES;LINK" ${ARGN})
  if(ARG_TORCH AND BUTTRESS_WITHOUT_TORCH)
    return()
  endif()
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC buttress_options ${ARG_LINK})
  _buttress_unity(${name} 12)
  if(ARG_TORCH)
    _buttress_torch_target(${name})
  elseif(ARG_COLD)
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-Os>)
    _buttress_precompiled(${name} buttress_cold_pch)
  elseif(ARG_LINK MATCHES "buttress_(codec|proto|rpc)")
    _buttress_precompiled(${name} buttress_grpc_pch)
  else()
    _buttress_precompiled(${name} buttress_std_pch)
  endif()
endfunction()

function(buttress_program name)
  cmake_parse_arguments(ARG "TORCH;COLD;ON_DEMAND" "" "SOURCES;LINK" ${ARGN})
  if(ARG_TORCH AND BUTTRESS_WITHOUT_TORCH)
    return()
  endif()
  add_executable(${name} ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES EXCLUDE_FROM_ALL ${ARG_ON_DEMAND})
  target_link_libraries(${name} PRIVATE buttress_options ${ARG_LINK})
  _buttress_unity(${name} 12)
  if(ARG_TORCH)
    _buttress_torch_target(${name})
  elseif(ARG_COLD)
    target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-Os>)
    _buttress_precompiled(${name} buttress_cold_pch)
  else()
    _buttress_precompiled(${name} buttress_program_pch)
  endif()
endfunction()

# By default threads of OpenMP spin between two operators of LibTorch, and take the cores of others.
set(_buttress_test_environment OMP_WAIT_POLICY=passive)

function(buttress_run_tests)
  set_tests_properties(${ARGN} PROPERTIES PROCESSORS 2 COST 100)
  set_property(TEST ${ARGN} APPEND PROPERTY ENVIRONMENT ${_buttress_test_environment})
endfunction()

function(_buttress_test_program name torch)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(
    ${name} PRIVATE buttress_options ${ARG_LINK} GTest::gmock buttress_test_main)
  if(BUTTRESS_SANITIZER STREQUAL "thread")
    target_link_libraries(${name} PRIVATE buttress_tsan_grpc)
  endif()
  _buttress_unity(${name} 12)
  # Compiling a test takes longer than running it. A precompiled header is for one of -O0 and -O1.
  if(torch)
    target_compile_options(${name} PRIVATE -O1)
    _buttress_torch_target(${name})
  else()
    target_compile_options(${name} PRIVATE -O0)
    _buttress_precompiled(${name} buttress_test_pch)
  endif()
endfunction()

function(_buttress_test_of_ctest name label timeout)
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(
    ${name} PROPERTIES LABELS ${label} TIMEOUT ${timeout} SKIP_RETURN_CODE 77
            ENVIRONMENT ${_buttress_test_environment})
endfunction()

function(buttress_test name)
  cmake_parse_arguments(ARG "TORCH" "LABEL;TIMEOUT" "SOURCES;LINK" ${ARGN})
  if(ARG_TORCH AND BUTTRESS_WITHOUT_TORCH)
    return()
  endif()
  _buttress_test_program(${name} ${ARG_TORCH} SOURCES ${ARG_SOURCES} LINK ${ARG_LINK})
  _buttress_test_of_ctest(${name} ${ARG_LABEL} ${ARG_TIMEOUT} ${name})
endfunction()

function(buttress_process_tests name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SOURCES;LINK;DEPENDS" ${ARGN})
  _buttress_test_program(${name} FALSE SOURCES ${ARG_SOURCES} LINK ${ARG_LINK})
  add_dependencies(${name} ${ARG_DEPENDS})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${ARG_SOURCES})
  foreach(source ${ARG_SOURCES})
    get_filename_component(test ${source} NAME_WE)
    file(STRINGS ${source} lines REGEX "^TEST(_F|_P)?\\(")
    if(lines)
      list(TRANSFORM lines REPLACE "^TEST_P\\(([A-Za-z0-9]+).*" "*/\\1.*")
      list(TRANSFORM lines REPLACE "^TEST(_F)?\\(([A-Za-z0-9]+).*" "\\2.*")
      list(REMOVE_DUPLICATES lines)
      list(JOIN lines ":" filter)
      _buttress_test_of_ctest(
        ${test} ${ARG_LABEL} ${ARG_TIMEOUT} ${name} --gtest_filter=${filter})
    elseif(test MATCHES "_test$")
      message(FATAL_ERROR "${source} has no line that begins with TEST(, TEST_F( or TEST_P(")
    endif()
  endforeach()
endfunction()
