# SPDX-License-Identifier: Apache-2.0
#
# neuron_llvm: LLVM's static archives from the PyPI package mlc-llvm-static, or from LLVM_DIR.
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
if(NOT LLVM_DIR)
  execute_process(
    COMMAND ${Python_EXECUTABLE} -c "import mlc_llvm_static as m; print(m.get_cmake_dir())"
    OUTPUT_VARIABLE LLVM_DIR OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE llvm_status ERROR_VARIABLE llvm_error)
  if(NOT llvm_status EQUAL 0)
    message(FATAL_ERROR "LLVM was not found: install mlc-llvm-static into the building Python "
                        "(${Python_EXECUTABLE}) or pass LLVM_DIR\n${llvm_error}")
  endif()
endif()
# The package brings the static libraries that its own export file asks for.
get_filename_component(llvm_prefix ${LLVM_DIR}/../../.. ABSOLUTE)
list(PREPEND CMAKE_PREFIX_PATH ${llvm_prefix})
find_package(zstd CONFIG QUIET)
find_package(LLVM REQUIRED CONFIG)
message(STATUS "LLVM ${LLVM_PACKAGE_VERSION}: ${LLVM_DIR}")

llvm_map_components_to_libnames(llvm_libraries core support targetparser orcjit jitlink passes
                                x86codegen x86asmparser x86info x86desc)
separate_arguments(llvm_definitions NATIVE_COMMAND "${LLVM_DEFINITIONS}")
add_library(neuron_llvm INTERFACE)
target_include_directories(neuron_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
target_compile_definitions(neuron_llvm INTERFACE ${llvm_definitions})
target_compile_options(neuron_llvm INTERFACE $<$<NOT:$<BOOL:${LLVM_ENABLE_RTTI}>>:-fno-rtti>)
target_link_libraries(neuron_llvm INTERFACE ${llvm_libraries})
