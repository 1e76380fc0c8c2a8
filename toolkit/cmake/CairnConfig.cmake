# Imported targets of this toolkit:
#
#   Cairn::ascendcl    libascendcl.so and the C headers
#   Cairn::ge_runner   libge_runner.so, and with it Cairn::ascendcl
#   Cairn::cairn_pool  libcairn_pool.so, the standalone pool, and with it Cairn::ascendcl
#
# No library has a SONAME, so that a program linked here also starts on CANN itself. CMake would
# then record the full path of the library in the program; IMPORTED_NO_SONAME makes it link by name.

get_filename_component(_cairn_root "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

foreach(_cairn_name ascendcl ge_runner cairn_pool)
  if(NOT TARGET Cairn::${_cairn_name})
    add_library(Cairn::${_cairn_name} SHARED IMPORTED)
    set_target_properties(Cairn::${_cairn_name} PROPERTIES
      IMPORTED_LOCATION "${_cairn_root}/lib64/lib${_cairn_name}.so"
      IMPORTED_NO_SONAME TRUE
      INTERFACE_INCLUDE_DIRECTORIES "${_cairn_root}/include")
  endif()
endforeach()
set_property(TARGET Cairn::ge_runner PROPERTY INTERFACE_LINK_LIBRARIES Cairn::ascendcl)
set_property(TARGET Cairn::cairn_pool PROPERTY INTERFACE_LINK_LIBRARIES Cairn::ascendcl)

set(Cairn_INCLUDE_DIRS "${_cairn_root}/include")
set(Cairn_LIBRARY_DIRS "${_cairn_root}/lib64")
unset(_cairn_root)
unset(_cairn_name)
