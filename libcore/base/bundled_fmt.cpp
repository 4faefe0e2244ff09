// SPDX-License-Identifier: Apache-2.0
// All of fmt's own functions, compiled once from its headers (meson's bundled_fmt). Each Debian release has another
// libfmt and no static library of it, so a package with its own fmt runs on all of them. -fkeep-inline-functions emits
// all functions, and --gc-sections removes those that are not called.
#define FMT_HEADER_ONLY
#include <fmt/format.h>

// Declared by fmt, but instantiated only for code that uses a locale.
template std::locale fmt::detail::locale_ref::get<std::locale>() const;
