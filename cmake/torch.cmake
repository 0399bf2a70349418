# LibTorch from the torch wheel, which deploy/setup.sh unpacks. find_package(Torch) is not used:
# programs link libtorch_cpu and libc10 and nothing of CUDA; libbuttress_cuda.so alone links the
# CUDA libraries, and programs open it at run time.
if(DEFINED ENV{BUTTRESS_CACHE})
  set(_buttress_cache $ENV{BUTTRESS_CACHE})
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(_buttress_cache $ENV{XDG_CACHE_HOME}/buttress)
else()
  set(_buttress_cache $ENV{HOME}/.cache/buttress)
endif()
set(_buttress_site ${_buttress_cache}/torch-2.11.0)
if(DEFINED ENV{BUTTRESS_TORCH})
  set(_buttress_torch $ENV{BUTTRESS_TORCH})
else()
  set(_buttress_torch ${_buttress_site}/torch)
endif()

set(BUTTRESS_TORCH_DIR ${_buttress_torch} CACHE PATH
    "Folder of LibTorch 2.11.0 with include/ and lib/")
set(BUTTRESS_NVIDIA_DIR ${_buttress_site}/nvidia CACHE PATH
    "Folder of NVIDIA's wheels with cu13/ and nccl/")
set(BUTTRESS_ARROW_DIR ${_buttress_site}/pyarrow CACHE PATH
    "Folder of pyarrow 26.0.1 with include/, libarrow and libparquet")
if(BUTTRESS_WITHOUT_TORCH)
  return()
endif()
if(NOT EXISTS ${BUTTRESS_TORCH_DIR}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "no LibTorch in ${BUTTRESS_TORCH_DIR}; run deploy/setup.sh, "
                      "or set BUTTRESS_TORCH to its folder")
endif()

# LibTorch's include folder has protobuf's headers of another version too: those that the messages
# need come first.
set(_buttress_protobuf ${CMAKE_BINARY_DIR}/protobuf_headers)
file(MAKE_DIRECTORY ${_buttress_protobuf})
file(CREATE_LINK ${Protobuf_INCLUDE_DIRS}/google ${_buttress_protobuf}/google SYMBOLIC)

add_library(buttress_torch INTERFACE)
target_include_directories(
  buttress_torch SYSTEM INTERFACE
  ${_buttress_protobuf}
  ${BUTTRESS_TORCH_DIR}/include ${BUTTRESS_TORCH_DIR}/include/torch/csrc/api/include)
target_link_libraries(
  buttress_torch
  INTERFACE
  ${BUTTRESS_TORCH_DIR}/lib/libtorch_cpu.so ${BUTTRESS_TORCH_DIR}/lib/libc10.so buttress_options)
# libtorch_cpu needs libcudart.so.13 and libcupti.so.13 at run time; the linker does not look for
# them in the run path, so it is configured not to look at all.
target_link_options(
  buttress_torch
  INTERFACE
  -Wl,--allow-shlib-undefined
  -Wl,--disable-new-dtags
  -Wl,-rpath,${BUTTRESS_TORCH_DIR}/lib
  -Wl,-rpath,${BUTTRESS_NVIDIA_DIR}/cu13/lib)

# Two compilers with LibTorch's headers take 2 GB: a pool of two suits small machines.
set_property(GLOBAL PROPERTY JOB_POOLS torch=2)
