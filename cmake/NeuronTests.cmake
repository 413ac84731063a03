# SPDX-License-Identifier: Apache-2.0
#
# The C++ tests. GoogleTest is compiled with the flags of the build, so that sanitizers see it:
#   1. its sources from the PyPI package ros-gtest-vendor in the building Python
#      (requirements-dev.txt pins it), or Debian's package googletest in /usr/src;
#   2. else a GoogleTest installed for CMake.
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter)
execute_process(
  COMMAND ${Python_EXECUTABLE} -c "import sys; print(sys.prefix)"
  OUTPUT_VARIABLE python_prefix OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
find_path(NEURON_GTEST_SOURCES src/gtest-all.cc NO_DEFAULT_PATH
          PATHS ${python_prefix}/src/gtest_vendor /usr/src/googletest/googletest)
if(NEURON_GTEST_SOURCES)
  add_library(neuron_gtest STATIC ${NEURON_GTEST_SOURCES}/src/gtest-all.cc
                                  ${NEURON_GTEST_SOURCES}/src/gtest_main.cc)
  target_include_directories(neuron_gtest PRIVATE ${NEURON_GTEST_SOURCES})
  target_include_directories(neuron_gtest SYSTEM PUBLIC ${NEURON_GTEST_SOURCES}/include)
  target_link_libraries(neuron_gtest PUBLIC Threads::Threads)
  if(NEURON_SANITIZE)
    target_compile_options(neuron_gtest PRIVATE -fsanitize=${NEURON_SANITIZE})
  endif()
else()
  find_package(GTest REQUIRED)
  add_library(neuron_gtest INTERFACE)
  target_link_libraries(neuron_gtest INTERFACE GTest::gtest GTest::gtest_main)
endif()

function(neuron_test_program name)
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_link_libraries(${name} PRIVATE neuron_core neuron_gtest)
  # Symbols in the program's own stack traces, and what dlopen'ed code may look up.
  target_link_options(${name} PRIVATE -rdynamic)
endfunction()

file(GLOB_RECURSE core_test_sources CONFIGURE_DEPENDS tests/core/*.cpp tests/conformance/*.cpp)
set(codegen_test_sources ${core_test_sources})
list(FILTER core_test_sources EXCLUDE REGEX "/tests/core/codegen(_eager)?/")
list(FILTER codegen_test_sources INCLUDE REGEX "/tests/core/codegen(_eager)?/")
if(core_test_sources)
  neuron_test_program(core_tests ${core_test_sources})
endif()
if(codegen_test_sources AND TARGET neuron_codegen)
  neuron_test_program(codegen_tests ${codegen_test_sources})
  add_dependencies(codegen_tests neuron_codegen)
  target_compile_definitions(codegen_tests PRIVATE
    NEURON_CODEGEN_LIBRARY="$<TARGET_FILE:neuron_codegen>")
endif()
