# SPDX-License-Identifier: Apache-2.0
#
# generated_sources: the typed kernels that tools/codegen/gen.py writes into the build tree.
#   gen.py --list      names of the files it writes
#   gen.py --out DIR   writes them
set(generated_sources)
set(gen_script ${CMAKE_SOURCE_DIR}/tools/codegen/gen.py)
if(EXISTS ${gen_script})
  set(gen_python ${CMAKE_COMMAND} -E env TORCH_DEVICE_BACKEND_AUTOLOAD=0 PYTHONDONTWRITEBYTECODE=1
                 ${Python_EXECUTABLE})
  file(GLOB_RECURSE gen_inputs CONFIGURE_DEPENDS tools/codegen/*.py csrc/torch/*.yaml)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${gen_inputs})
  execute_process(
    COMMAND ${gen_python} ${gen_script} --list
    OUTPUT_VARIABLE gen_names OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE gen_status ERROR_VARIABLE gen_error)
  if(NOT gen_status EQUAL 0)
    message(FATAL_ERROR "tools/codegen/gen.py --list failed:\n${gen_error}")
  endif()
  string(REGEX REPLACE "[ \n]+" ";" gen_names "${gen_names}")
  set(gen_dir ${CMAKE_BINARY_DIR}/generated)
  list(TRANSFORM gen_names PREPEND ${gen_dir}/ OUTPUT_VARIABLE gen_files)
  add_custom_command(
    OUTPUT ${gen_files}
    COMMAND ${gen_python} ${gen_script} --out ${gen_dir}
    DEPENDS ${gen_inputs}
    COMMENT "Generating typed kernels" VERBATIM)
  set(generated_sources ${gen_files})
endif()
