// SPDX-License-Identifier: Apache-2.0
// All of fmt's own functions, compiled once out of its headers, for programs that run where there is another fmt, or
// none (meson's bundled_fmt): every Debian has another one, and no archive of it to link with. Nobody here calls
// anything: -fkeep-inline-functions has them all made, and --gc-sections drops what is not called.
#define FMT_HEADER_ONLY
#include <fmt/format.h>

// Declared by fmt, and made only where somebody asks for a locale.
template std::locale fmt::detail::locale_ref::get<std::locale>() const;
