# cmake -D OUT=texts.cc -D HEADER=texts.h -D FILES="kName:path ..." -P embed.cmake
#   Writes the definitions that HEADER declares: the files as strings.
set(code "#include \"${HEADER}\"\n\nnamespace buttress {\n\n")
separate_arguments(FILES)
foreach(pair ${FILES})
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 name)
  list(GET pair 1 file)
  file(READ ${file} text)
  string(APPEND code "const std::string_view ${name} = R\"embedded(${text})embedded\";\n\n")
endforeach()
file(WRITE ${OUT} "${code}}  // namespace buttress\n")
