// The files of the page, which the build puts into the program (cmake/embed.cmake).
#pragma once

#include <string_view>

namespace buttress {

extern const std::string_view kIndexHtml;
extern const std::string_view kPageCss;
extern const std::string_view kPageJs;

}  // namespace buttress
