# cmake -D OUTPUT=FILE.cc -D FOLDER=DIR -P embed_page.cmake: writes page_files() of server/page.h from the folder's files.
file(GLOB paths ${FOLDER}/*)
set(rows "")
set(num_files 0)
foreach(path ${paths})
  cmake_path(GET path FILENAME name)
  file(SHA256 ${path} sha256)
  file(READ ${path} text)
  string(FIND "${text}" ")page\"" end)
  if(NOT end EQUAL -1)
    message(FATAL_ERROR "${name} holds the mark that ends it as a C++ text: )page\"")
  endif()
  string(APPEND rows "    {\"${name}\",\n     R\"page(${text})page\",\n     \"${sha256}\"},\n")
  math(EXPR num_files "${num_files} + 1")
endforeach()
file(WRITE ${OUTPUT} "#include <array>

#include \"server/page.h\"

namespace octavo {
namespace {

constexpr std::array<PageFile, ${num_files}> kPageFiles = {{
${rows}}};

}  // namespace

std::span<const PageFile> page_files() { return kPageFiles; }

}  // namespace octavo
")
