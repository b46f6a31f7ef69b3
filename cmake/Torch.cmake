# Finds libtorch: TRIREME_TORCH (a directory that holds share/cmake/Torch) or the torch of TRIREME_PYTHON / python3.
if(NOT TRIREME_TORCH AND DEFINED ENV{TRIREME_TORCH})
  set(TRIREME_TORCH $ENV{TRIREME_TORCH})
endif()
if(NOT TRIREME_TORCH)
  # pip builds for the environment of Python_EXECUTABLE and hides its packages while it does; the folder says where they are.
  set(_pythons ${TRIREME_PYTHON} ${CMAKE_SOURCE_DIR}/.venv/bin/python python3)
  if(SKBUILD)
    set(_pythons ${Python_EXECUTABLE})
  endif()
  foreach(_python ${_pythons})
    execute_process(COMMAND ${_python} ${CMAKE_SOURCE_DIR}/cmake/find_torch.py
                    OUTPUT_VARIABLE _found OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE _rc ERROR_QUIET)
    if(_rc EQUAL 0)
      set(TRIREME_TORCH ${_found})
      break()
    endif()
  endforeach()
endif()
if(NOT TRIREME_TORCH AND SKBUILD)
  message(FATAL_ERROR "The environment of ${Python_EXECUTABLE} has no torch. Install torch >= 2.11 there first; where another "
                      "tool than pip builds, or the environment takes torch from elsewhere, add --no-build-isolation. The "
                      "planning half needs no torch: -C cmake.define.TRIREME_WITH_TORCH=OFF.")
endif()
if(NOT TRIREME_TORCH)
  message(FATAL_ERROR "No torch found. Run scripts/setup.sh, or pass -DTRIREME_TORCH=<folder of libtorch >= 2.11>, "
                      "or build the planning half alone with -DTRIREME_WITH_TORCH=OFF.")
endif()
# pip may build for several environments in one folder: it looks each time.
if(NOT SKBUILD)
  set(TRIREME_TORCH ${TRIREME_TORCH} CACHE PATH "Folder of libtorch")
endif()
# A build folder may be given another torch: what was found in the last one is not kept.
foreach(_found LIB_torch LIB_torch_cpu LIB_c10 TORCH_GOMP NCCL_INCLUDE CUDA_INCLUDE)
  unset(TRIREME_${_found} CACHE)
endforeach()
# The libraries by name and not through TorchConfig.cmake: that of a CUDA build wants a whole CUDA toolkit, and no CUDA is
# compiled here.
foreach(_name torch torch_cpu c10)
  find_library(TRIREME_LIB_${_name} NAMES ${_name} PATHS ${TRIREME_TORCH}/lib NO_DEFAULT_PATH)
  if(NOT TRIREME_LIB_${_name})
    message(FATAL_ERROR "TRIREME_TORCH = ${TRIREME_TORCH} holds no lib/lib${_name}.so: it is not the folder of a libtorch.")
  endif()
endforeach()
foreach(_header torch/headeronly/version.h torch/version.h)
  if(NOT TRIREME_TORCH_VERSION AND EXISTS ${TRIREME_TORCH}/include/${_header})
    file(STRINGS ${TRIREME_TORCH}/include/${_header} _lines REGEX "define TORCH_VERSION_(MAJOR|MINOR) ")
    string(REGEX MATCHALL "[0-9]+" _numbers "${_lines}")
    list(JOIN _numbers "." TRIREME_TORCH_VERSION)
  endif()
endforeach()
if(NOT TRIREME_TORCH_VERSION OR TRIREME_TORCH_VERSION VERSION_LESS 2.11)
  message(FATAL_ERROR "torch ${TRIREME_TORCH_VERSION} at ${TRIREME_TORCH} is too old: 2.11 or newer is needed.")
endif()
message(STATUS "torch ${TRIREME_TORCH_VERSION} at ${TRIREME_TORCH}")

add_library(trireme_torch INTERFACE)
target_link_libraries(trireme_torch INTERFACE ${TRIREME_LIB_torch} ${TRIREME_LIB_torch_cpu} ${TRIREME_LIB_c10})
target_compile_options(trireme_torch INTERFACE -fopenmp)
# One OpenMP runtime in a process: the one that torch ships, where it ships one.
find_library(TRIREME_TORCH_GOMP NAMES libgomp.so.1 PATHS ${TRIREME_TORCH}/lib NO_DEFAULT_PATH)
if(TRIREME_TORCH_GOMP)
  target_link_libraries(trireme_torch INTERFACE ${TRIREME_TORCH_GOMP})
else()
  target_link_libraries(trireme_torch INTERFACE OpenMP::OpenMP_CXX)
endif()
target_include_directories(trireme_torch SYSTEM INTERFACE ${TRIREME_TORCH}/include
                                                          ${TRIREME_TORCH}/include/torch/csrc/api/include)
# The wheel bundles the headers of another fmt without its library: ours must come first (-I precedes -isystem).
find_path(TRIREME_FMT_INCLUDE fmt/format.h REQUIRED)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/trireme_system_fmt)
file(CREATE_LINK ${TRIREME_FMT_INCLUDE}/fmt ${CMAKE_BINARY_DIR}/trireme_system_fmt/fmt SYMBOLIC)
target_include_directories(trireme_torch INTERFACE ${CMAKE_BINARY_DIR}/trireme_system_fmt)
# The wheel ships c10d but says which backends it holds only through these; the last two are TorchConfig's own.
target_compile_definitions(trireme_torch INTERFACE USE_C10D USE_DISTRIBUTED USE_C10D_GLOO USE_RPC USE_TENSORPIPE)
# A CUDA build registers its device when its library is loaded, which nothing here calls by name. NCCL's backend is made by
# name, so it is compiled in where its headers and CUDA's are: those of pip's nvidia packages or of a toolkit.
if(EXISTS ${TRIREME_TORCH}/lib/libtorch_cuda.so)
  target_link_libraries(trireme_torch INTERFACE
                        -Wl,--no-as-needed ${TRIREME_TORCH}/lib/libtorch_cuda.so ${TRIREME_TORCH}/lib/libc10_cuda.so -Wl,--as-needed)
  file(GLOB _nvidia ${TRIREME_TORCH}/../nvidia/*/include)
  find_path(TRIREME_NCCL_INCLUDE nccl.h PATHS ${_nvidia})
  # cuda_runtime.h wants the crt folder, which pip keeps in a package of its own that torch does not bring.
  find_path(TRIREME_CUDA_INCLUDE crt/host_config.h PATHS ${_nvidia} /usr/local/cuda/include)
  if(TRIREME_NCCL_INCLUDE AND TRIREME_CUDA_INCLUDE)
    message(STATUS "NCCL compiled in")
    target_compile_definitions(trireme_torch INTERFACE USE_C10D_NCCL TRIREME_WITH_NCCL=1)
    target_include_directories(trireme_torch SYSTEM INTERFACE ${TRIREME_NCCL_INCLUDE} ${TRIREME_CUDA_INCLUDE} ${_nvidia})
  else()
    message(STATUS "NCCL left out: no nccl.h, or no CUDA toolkit with crt/host_config.h")
  endif()
endif()
