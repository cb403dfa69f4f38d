# The manual pages: those of docs/reference/cli.md are made, those of docs/man/*.1 are taken as they are.
find_package(Python3 COMPONENTS Interpreter)
file(GLOB SLIPWAY_MAN_WRITTEN ${PROJECT_SOURCE_DIR}/docs/man/*.1)
file(GLOB SLIPWAY_MAN_PROSE ${PROJECT_SOURCE_DIR}/docs/man/*.1.in)
set(SLIPWAY_MAN_DIR ${PROJECT_BINARY_DIR}/man)
set(SLIPWAY_MAN_SCRIPT ${PROJECT_SOURCE_DIR}/cmake/man_pages.py)
set(SLIPWAY_MAN_REFERENCE ${PROJECT_SOURCE_DIR}/docs/reference/cli.md
    ${PROJECT_SOURCE_DIR}/docs/reference/files-and-environment.md)
install(FILES ${SLIPWAY_MAN_WRITTEN} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)

if(Python3_Interpreter_FOUND)
    # A new section of the reference is a new page.
    set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${SLIPWAY_MAN_REFERENCE})
    execute_process(COMMAND ${Python3_EXECUTABLE} -B ${SLIPWAY_MAN_SCRIPT} --list ${PROJECT_SOURCE_DIR}
        OUTPUT_VARIABLE pages OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    string(REPLACE "\n" ";" pages "${pages}")
    set(made)
    foreach(page IN LISTS pages)
        add_custom_command(OUTPUT ${SLIPWAY_MAN_DIR}/${page}
            COMMAND ${CMAKE_COMMAND} -E make_directory ${SLIPWAY_MAN_DIR}
            COMMAND ${Python3_EXECUTABLE} -B ${SLIPWAY_MAN_SCRIPT} ${PROJECT_SOURCE_DIR} ${PROJECT_VERSION} ${page}
                ${SLIPWAY_MAN_DIR}/${page}
            DEPENDS ${SLIPWAY_MAN_SCRIPT} ${SLIPWAY_MAN_REFERENCE} ${SLIPWAY_MAN_PROSE} VERBATIM)
        list(APPEND made ${SLIPWAY_MAN_DIR}/${page})
    endforeach()
    add_custom_target(slipway_man ALL DEPENDS ${made})
    install(FILES ${made} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
else()
    message(STATUS "no Python 3: the manual pages are not made")
endif()
install(FILES ${PROJECT_SOURCE_DIR}/packaging/apparmor/slipway DESTINATION ${CMAKE_INSTALL_DATADIR}/slipway/apparmor)
