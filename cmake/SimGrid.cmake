# Finds SimGrid (Debian: libsimgrid-dev), for the comparison of sim's network model with it: bench/simgrid.
find_path(TRIREME_SIMGRID_INCLUDE simgrid/s4u.hpp)
find_library(TRIREME_SIMGRID_LIBRARY simgrid)
if(NOT TRIREME_SIMGRID_INCLUDE OR NOT TRIREME_SIMGRID_LIBRARY)
  message(FATAL_ERROR "TRIREME_WITH_SIMGRID needs SimGrid 3.32: install libsimgrid-dev, or give TRIREME_SIMGRID_INCLUDE (the "
                      "folder of simgrid/s4u.hpp) and TRIREME_SIMGRID_LIBRARY (libsimgrid.so).")
endif()
add_library(trireme_simgrid INTERFACE)
target_include_directories(trireme_simgrid SYSTEM INTERFACE ${TRIREME_SIMGRID_INCLUDE})
target_link_libraries(trireme_simgrid INTERFACE ${TRIREME_SIMGRID_LIBRARY})
