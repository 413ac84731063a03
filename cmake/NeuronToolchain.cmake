# SPDX-License-Identifier: Apache-2.0
#
# Compiler, linker and flags shared by all targets, and neuron_place(target).

if(NOT NEURON_SANITIZE MATCHES "^(address|thread)?$")
  message(FATAL_ERROR "NEURON_SANITIZE=${NEURON_SANITIZE}: expected nothing, address or thread")
endif()
if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux" OR NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  message(FATAL_ERROR "TorchNeuron is built on x86-64 Linux; this is ${CMAKE_SYSTEM_NAME} "
                      "${CMAKE_SYSTEM_PROCESSOR}")
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "g++ ${CMAKE_CXX_COMPILER_VERSION} is too old: TorchNeuron is C++20 and "
                      "needs g++ 12 or newer (choose one with CXX=g++-12)")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# Assertions are on in the sanitizer builds only (ATen's headers test NDEBUG as well).
if(NEURON_SANITIZE)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1 -fno-omit-frame-pointer")
else()
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
endif()
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

find_program(NEURON_CCACHE ccache)
if(NEURON_CCACHE)
  # Objects of one clone serve another: paths inside the source tree are hashed relative to it.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=time_macros CCACHE_NOHASHDIR=1
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} ${NEURON_CCACHE})
endif()

foreach(linker mold lld)
  find_program(NEURON_LINKER_${linker} NAMES ld.${linker})
  if(NEURON_LINKER_${linker} AND NOT NEURON_LINKER)
    set(NEURON_LINKER ${linker})
    add_link_options(-fuse-ld=${linker})
  endif()
endforeach()

# Baseline x86-64: kernels that need more are generated at run time for the machine's processor.
add_library(neuron_options INTERFACE)
target_compile_options(
  neuron_options
  INTERFACE -Wall -Wextra $<$<BOOL:${NEURON_WERROR}>:-Werror> -ffunction-sections -fdata-sections
            -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
if(NEURON_SANITIZE)
  target_compile_options(neuron_options INTERFACE -fsanitize=${NEURON_SANITIZE})
  target_link_options(neuron_options INTERFACE -fsanitize=${NEURON_SANITIZE})
endif()

# neuron_place(target): the library goes into the package torch_neuronx, both in the wheel and, as
# a symbolic link, in the source tree.
function(neuron_place target)
  install(TARGETS ${target} DESTINATION torch_neuronx)
  if(NEURON_INPLACE)
    add_custom_command(
      TARGET ${target} POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E create_symlink $<TARGET_FILE:${target}>
              ${CMAKE_SOURCE_DIR}/python/torch_neuronx/$<TARGET_FILE_NAME:${target}>
      VERBATIM)
  endif()
endfunction()
if(NEURON_INPLACE)
  file(MAKE_DIRECTORY ${CMAKE_SOURCE_DIR}/python/torch_neuronx)
endif()
