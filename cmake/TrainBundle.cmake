# The tree for `slipway build --preload train`: libexec/slipway/preload/train in the build and in the installation.
find_program(PATCHELF_PROGRAM patchelf)
if(NOT PATCHELF_PROGRAM)
    message(STATUS "No patchelf: the bundle for --preload train is not built")
    return()
endif()
set(bundle_dir ${PROJECT_BINARY_DIR}/libexec/slipway/preload/train)
set(bundle_stamp ${PROJECT_BINARY_DIR}/train-bundle.stamp)
set(bundle_inputs slipway-train)
foreach(name openmpi mpich)
    if(TARGET slipway-mpi-${name})
        list(APPEND bundle_inputs slipway-mpi-${name})
    endif()
endforeach()
add_custom_command(OUTPUT ${bundle_stamp}
    COMMAND ${PROJECT_SOURCE_DIR}/packaging/bundle-train.sh
        $<TARGET_FILE:slipway-train> ${PROJECT_BINARY_DIR}/lib/slipway ${bundle_dir}
    COMMAND ${CMAKE_COMMAND} -E touch ${bundle_stamp}
    DEPENDS ${bundle_inputs} ${PROJECT_SOURCE_DIR}/packaging/bundle-train.sh
    COMMENT "Bundling slipway-train for --preload train" VERBATIM)
add_custom_target(train-bundle ALL DEPENDS ${bundle_stamp})
install(DIRECTORY ${bundle_dir} DESTINATION libexec/slipway/preload USE_SOURCE_PERMISSIONS)
