# cmake -D OUT=assets.cc -D FOLDER=dir -P embed.cmake
#   Writes the definitions that coordinator/page/assets.h declares: the files of FOLDER as strings.
set(code "#include \"coordinator/page/assets.h\"\n\nnamespace buttress {\n\n")
foreach(pair kIndexHtml:index.html kPageCss:page.css kPageJs:page.js)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 name)
  list(GET pair 1 file)
  file(READ ${FOLDER}/${file} text)
  string(APPEND code "const std::string_view ${name} = R\"embedded(${text})embedded\";\n\n")
endforeach()
file(WRITE ${OUT} "${code}}  // namespace buttress\n")
