// SPDX-License-Identifier: Apache-2.0
// Asio's own functions, compiled once: meson.build defines BOOST_ASIO_SEPARATE_COMPILATION for all files that use it.
#include <boost/asio/impl/src.hpp>
