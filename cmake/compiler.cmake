# Language level, warnings, linker, compiler cache. No -march: kernels of ours are dispatched by CPU at run time.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

find_program(BUTTRESS_CCACHE ccache)
if(BUTTRESS_CCACHE)
  # The precompiled header would otherwise make every torch file a miss (ccache's manual, "Precompiled headers").
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} ${BUTTRESS_CCACHE})
endif()

find_program(BUTTRESS_MOLD mold)
if(BUTTRESS_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# Linked by every target of ours; third-party headers come in as SYSTEM.
add_library(buttress_options INTERFACE)
# g++ 12 sees uninitialised members in std::optional of large structs where there are none.
target_compile_options(
  buttress_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
                             $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
target_include_directories(buttress_options INTERFACE ${CMAKE_SOURCE_DIR})

if(BUTTRESS_SANITIZER)
  add_compile_options(-fsanitize=${BUTTRESS_SANITIZER} -fno-omit-frame-pointer -fno-sanitize-recover=undefined)
  add_link_options(-fsanitize=${BUTTRESS_SANITIZER})
endif()
