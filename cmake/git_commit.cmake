# cmake -D OUT=git_commit.h -D FOLDER=dir -P git_commit.cmake
#   Writes kGitCommit, the commit of FOLDER with "+changes" if it is not what lies there, or
#   "unknown" outside of a repository. The file is touched only if it changes.
execute_process(
  COMMAND git -C ${FOLDER} describe --always --abbrev=40 --dirty=+changes --exclude=*
  OUTPUT_VARIABLE commit
  ERROR_QUIET
  OUTPUT_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE failed)
if(failed)
  set(commit unknown)
endif()
set(code "#pragma once\n\ninline constexpr char kGitCommit[] = \"${commit}\";\n")
set(before "")
if(EXISTS ${OUT})
  file(READ ${OUT} before)
endif()
if(NOT before STREQUAL code)
  file(WRITE ${OUT} "${code}")
endif()
