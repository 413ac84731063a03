# SPDX-License-Identifier: Apache-2.0
#
# neuron_torch: PyTorch as found in the building Python (headers, libraries, pybind11).
#
# TorchConfig.cmake is not used: with a CUDA wheel it demands the CUDA toolkit, of which nothing
# here is needed.
find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)

execute_process(
  COMMAND ${CMAKE_COMMAND} -E env TORCH_DEVICE_BACKEND_AUTOLOAD=0 ${Python_EXECUTABLE} -c
          "import os, torch
print(';'.join([torch.__version__, os.path.dirname(torch.__file__), str(int(torch.compiled_with_cxx11_abi()))]))"
  OUTPUT_VARIABLE torch_facts OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE torch_status ERROR_VARIABLE torch_error)
if(NOT torch_status EQUAL 0)
  message(FATAL_ERROR "PyTorch cannot be imported by ${Python_EXECUTABLE}:\n${torch_error}")
endif()
list(GET torch_facts 0 torch_version)
list(GET torch_facts 1 torch_dir)
list(GET torch_facts 2 torch_abi)
if(NOT torch_version MATCHES "^2\\.13\\.")
  message(FATAL_ERROR "TorchNeuron is built against PyTorch 2.13; ${Python_EXECUTABLE} has "
                      "${torch_version}")
endif()
message(STATUS "PyTorch ${torch_version}: ${torch_dir}")

add_library(neuron_torch INTERFACE)
target_include_directories(neuron_torch SYSTEM INTERFACE
  ${torch_dir}/include ${torch_dir}/include/torch/csrc/api/include)
target_compile_definitions(neuron_torch INTERFACE
  _GLIBCXX_USE_CXX11_ABI=${torch_abi} AT_PER_OPERATOR_HEADERS)
# PyTorch's error messages carry the file name of the header that they are raised in.
target_compile_options(neuron_torch INTERFACE -ffile-prefix-map=${torch_dir}/=torch/)
foreach(library torch torch_cpu torch_python c10)
  if(NOT EXISTS ${torch_dir}/lib/lib${library}.so)
    message(FATAL_ERROR "${torch_dir}/lib/lib${library}.so does not exist")
  endif()
  target_link_libraries(neuron_torch INTERFACE ${torch_dir}/lib/lib${library}.so)
endforeach()
target_link_libraries(neuron_torch INTERFACE Python::Module)

# The package finds torch beside itself in site-packages; the build tree uses the absolute path.
set(CMAKE_BUILD_RPATH $ORIGIN ${torch_dir}/lib)
set(CMAKE_INSTALL_RPATH $ORIGIN $ORIGIN/../torch/lib)
