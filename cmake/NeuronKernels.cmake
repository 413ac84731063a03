# SPDX-License-Identifier: Apache-2.0
#
# kernels: the shipped level of the kernel store, one pack for each of NEURON_KERNEL_LEVELS, placed
# as kernels/ beside libneuron_codegen.so. The program that writes them keeps what the same code
# generator has made before, so it is run whenever it or the generator has been linked anew.
if(NEURON_WHEEL)
  set(kernel_levels avx512 avx2 baseline)
else()
  set(kernel_levels native)
endif()
set(NEURON_KERNEL_LEVELS ${kernel_levels} CACHE STRING
    "Instruction sets with prebuilt kernels: avx512, avx2, baseline, native (this processor's)")

add_executable(build_packs tools/kernels/build_packs.cpp)
target_link_libraries(build_packs PRIVATE neuron_core)

set(kernel_directory ${CMAKE_BINARY_DIR}/kernels)
set(kernel_stamps)
file(MAKE_DIRECTORY ${kernel_directory})
foreach(level ${NEURON_KERNEL_LEVELS})
  add_custom_command(
    OUTPUT ${kernel_directory}/${level}.stamp
    COMMAND build_packs $<TARGET_FILE:neuron_codegen> ${kernel_directory} ${level}
    COMMAND ${CMAKE_COMMAND} -E touch ${kernel_directory}/${level}.stamp
    DEPENDS build_packs neuron_codegen
    COMMENT "Compiling the shipped kernels (${level})" VERBATIM)
  list(APPEND kernel_stamps ${kernel_directory}/${level}.stamp)
endforeach()
add_custom_target(kernels ALL DEPENDS ${kernel_stamps})

install(DIRECTORY ${kernel_directory} DESTINATION torch_neuronx FILES_MATCHING PATTERN "*.pack")
if(NEURON_INPLACE)
  file(CREATE_LINK ${kernel_directory} ${CMAKE_SOURCE_DIR}/python/torch_neuronx/kernels SYMBOLIC)
endif()
