# `cmake --install`: the program with its configs, and the planning half as a CMake package. docs/install.md says how each is used.
include(CMakePackageConfigHelpers)
if(SKBUILD)  # pip: the environment's bin and share
  set(CMAKE_INSTALL_BINDIR ${SKBUILD_SCRIPTS_DIR})
  set(CMAKE_INSTALL_DATADIR ${SKBUILD_DATA_DIR}/share)
endif()

# The program finds libtorch where it was at the build. Where that is inside the Python environment that pip installs to, the
# place is kept relative to the program, so that the environment may move.
if(TRIREME_WITH_TORCH)
  set(_libtorch ${TRIREME_TORCH}/lib)
  if(SKBUILD)
    execute_process(COMMAND ${Python_EXECUTABLE} -c "import sysconfig; print(sysconfig.get_path('scripts')); print(sysconfig.get_path('data'))"
                    OUTPUT_VARIABLE _paths OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    string(REPLACE "\n" ";" _paths "${_paths}")
    list(GET _paths 0 _scripts)
    list(GET _paths 1 _environment)
    string(FIND "${_libtorch}" "${_environment}/" _at)
    if(_at EQUAL 0)
      file(RELATIVE_PATH _relative ${_scripts} ${_libtorch})
      set(_libtorch "$ORIGIN/${_relative}")
    endif()
  endif()
  set_target_properties(trireme PROPERTIES INSTALL_RPATH "${_libtorch}")
endif()
install(TARGETS trireme RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/configs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/trireme/configs COMPONENT program)
if(SKBUILD)
  return()
endif()

install(FILES ${CMAKE_SOURCE_DIR}/LICENSE ${CMAKE_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documentation)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT documentation)

set(_package ${CMAKE_INSTALL_LIBDIR}/cmake/Trireme)
set(_libraries trireme_deps)
foreach(_folder base model platform plan sim search report)
  list(APPEND _libraries trireme_${_folder})
  set_target_properties(trireme_${_folder} PROPERTIES EXPORT_NAME ${_folder})
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/src/${_folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/trireme COMPONENT planning
          FILES_MATCHING PATTERN "*.h")
endforeach()
set_target_properties(trireme_deps PROPERTIES EXPORT_NAME deps)
install(TARGETS ${_libraries} EXPORT Trireme ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/trireme COMPONENT planning)
install(EXPORT Trireme FILE TriremeTargets.cmake NAMESPACE Trireme:: DESTINATION ${_package} COMPONENT planning)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/TriremeConfig.cmake.in ${CMAKE_BINARY_DIR}/generated/TriremeConfig.cmake
                              INSTALL_DESTINATION ${_package} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/generated/TriremeConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/generated/TriremeConfig.cmake ${CMAKE_BINARY_DIR}/generated/TriremeConfigVersion.cmake
        DESTINATION ${_package} COMPONENT planning)
