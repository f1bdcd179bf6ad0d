# `cmake --install <build> --prefix <where>`: programs, shipped configurations, completions, documents.
foreach(_program ampctl ampctl-worker)
  if(TARGET ${_program})
    install(TARGETS ${_program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
install(DIRECTORY configs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/ampctl/configs FILES_MATCHING PATTERN "*.yaml")
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(EXISTS "${CMAKE_SOURCE_DIR}/docs")
  install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
endif()

# The front end writes its own completions, so they are made at installation time.
if(TARGET ampctl)
  install(CODE "
    function(write_completion shell file)
      execute_process(COMMAND \"$<TARGET_FILE:ampctl>\" completion \${shell}
        OUTPUT_VARIABLE script RESULT_VARIABLE result ERROR_QUIET)
      if(result EQUAL 0)
        set(path \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/\${file}\")
        message(STATUS \"Installing: \${path}\")
        file(WRITE \"\${path}\" \"\${script}\")
      else()
        message(WARNING \"ampctl completion \${shell} failed; no completion for it is installed\")
      endif()
    endfunction()
    write_completion(bash bash-completion/completions/ampctl)
    write_completion(zsh zsh/site-functions/_ampctl)")
endif()
