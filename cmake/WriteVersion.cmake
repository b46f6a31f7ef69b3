# Run at each build: writes the source file of the program's version where it has changed.
#   cmake -DSOURCE=<source folder> -DPROJECT_VERSION=<x.y.z> -DOUTPUT=<file> -P WriteVersion.cmake
set(VERSION_TEXT "${PROJECT_VERSION}")
find_program(GIT git)
if(GIT)
  execute_process(COMMAND ${GIT} describe --always --dirty --tags WORKING_DIRECTORY ${SOURCE} OUTPUT_VARIABLE described
                  OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed)
    set(VERSION_TEXT "${PROJECT_VERSION} (${described})")
  endif()
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/program_version.cpp.in ${OUTPUT} @ONLY)
